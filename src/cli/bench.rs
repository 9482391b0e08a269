//! `decision-bench`: measures.

use super::engine::SpeedArguments;
use super::exit::{self, EXIT_HELP, Exit, Stop};
use super::model::ModelArguments;
use super::stdout::Stdout;
use super::table::table;
use crate::bench::roofline::{BUFFERS, median};
use crate::bench::{Machine, Measured, measure};
use crate::engine::{Engine, Options};
use crate::json::{Object, Value};
use crate::model::Phase;
use std::process::ExitCode;

const TOOL: &str = "decision-bench";

const ABOUT: &str = "Measures how fast decision models run";

const ROOFLINE: &str = "\
Prints the limits of this machine, and how near a pass of a model comes to them.

The limits are f32 multiply-adds with every operand in a register, eight-bit multiply-adds, and
reading memory. The floor of a pass is the time its needed arithmetic takes at the f32 limit, which
is measured again between the passes; every time is a median. Measure on a quiet machine.";

const EXAMPLES: &str = "\
Examples:
  decision-bench roofline                                  the limits of this machine
  decision-bench roofline -m model.gguf --tokens 220,1024  and how near a pass comes to them
  decision-bench roofline -m model.gguf -t 1 --json        the same for machines
";

#[derive(Debug, clap::Parser)]
#[command(name = TOOL, version, about = ABOUT, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Roofline(RooflineArguments),
}

/// Arguments of `decision-bench roofline`.
#[derive(Debug, clap::Args)]
#[command(about = "Prints the limits of this machine, and how near a pass comes", long_about = ROOFLINE)]
#[command(after_help = EXAMPLES)]
struct RooflineArguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Tokens of the measured rows
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "64,220,480,1024")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=65_536))]
    tokens: Vec<u32>,
    /// Rows of a pass
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    rows: u32,
    /// Passes measured of each length
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    speed: SpeedArguments,
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    exit::main(TOOL, |arguments: Arguments| match arguments.command {
        Command::Roofline(arguments) => roofline(arguments),
    })
}

fn roofline(arguments: RooflineArguments) -> Result<Exit, Stop> {
    let RooflineArguments { model, tokens, rows, repeats, json, speed } = arguments;
    let model = model.named(TOOL)?;
    let (isa, n_threads) = speed.choice()?;
    let options = Options { n_threads: Some(n_threads), isa: Some(isa), ..Options::default() };
    let engine = model.map(|model| Engine::open(&model.path, &options)).transpose()?;
    let mut counts = vec![1, n_threads];
    counts.dedup();
    let machines = counts.iter().map(|count| Machine::measure(isa, *count)).collect::<Result<Vec<_>, _>>()?;
    let mut passes = Vec::new();
    if let Some(engine) = &engine {
        for n in tokens {
            passes.push(measure(engine.model(), n as usize, rows as usize, repeats as usize)?);
        }
    }
    let mut stdout = Stdout::open();
    if json {
        let mut out = Object::new();
        out.insert("isa", isa.name());
        out.insert("machine", machines.iter().map(machine_json).collect::<Vec<_>>());
        out.insert("threads", n_threads as i64);
        out.insert("passes", passes.iter().map(pass_json).collect::<Vec<_>>());
        stdout.line(Value::Object(out).dumps_indent(2))?;
        return Ok(Exit::Done);
    }
    stdout.line(format!("instruction set {}", isa.name()))?;
    stdout.line(machine_table(&machines))?;
    for pass in &passes {
        let rows = if pass.n_rows == 1 { String::new() } else { format!("{} rows of ", pass.n_rows) };
        stdout.line(format!("\n{rows}{} tokens, {n_threads} threads, {repeats} passes", pass.row_tokens))?;
        stdout.line(pass_table(pass))?;
    }
    Ok(Exit::Done)
}

fn machine_table(machines: &[Machine]) -> String {
    let mut header = vec!["threads", "f32 GFLOP/s", "int8 GOP/s"];
    let reads: Vec<_> = BUFFERS.iter().map(|(name, _)| format!("read {name} GB/s")).collect();
    header.extend(reads.iter().map(String::as_str));
    let mut table = table(&header, 1);
    for machine in machines {
        let mut row = vec![
            machine.n_threads.to_string(),
            format!("{:.0}", machine.f32_flops / 1e9),
            machine.int8_ops.map_or("-".into(), |ops| format!("{:.0}", ops / 1e9)),
        ];
        row.extend(machine.read.iter().map(|rate| format!("{:.0}", rate / 1e9)));
        table.add_row(row);
    }
    table.trim_fmt()
}

/// What a phase is called.
fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Embedding => "embedding",
        Phase::Qkv => "qkv",
        Phase::LocalAttention => "local attention",
        Phase::GlobalAttention => "global attention",
        Phase::AttentionOutput => "attention output",
        Phase::FeedForward => "feed-forward",
        Phase::FinalNorm => "final norm",
        Phase::Head => "head",
        Phase::HeadAttention => "head attention",
        Phase::Readout => "readout",
    }
}

fn pass_table(pass: &Measured) -> String {
    let mut table = table(&["phase", "ms", "of the pass", "GFLOP", "floor ms", "of the f32 peak"], 1);
    let total = median(&pass.total);
    let mut add = |name: &str, flops: f64, seconds: f64| {
        let computed = flops > 0.0;
        table.add_row([
            name.to_owned(),
            format!("{:.2}", seconds * 1e3),
            format!("{:.1} %", seconds / total * 100.0),
            if computed { format!("{:.2}", flops / 1e9) } else { "-".into() },
            if computed { format!("{:.2}", flops / pass.f32_flops * 1e3) } else { "-".into() },
            if computed { format!("{:.1} %", pass.share(flops, seconds) * 100.0) } else { "-".into() },
        ]);
    };
    for phase in Phase::ALL {
        if let Some(samples) = pass.phases.get(&phase) {
            add(name(phase), pass.work.phase(phase), median(samples));
        }
    }
    add("whole pass", pass.work.total(), total);
    table.trim_fmt()
}

fn machine_json(machine: &Machine) -> Value {
    let mut out = Object::new();
    out.insert("threads", machine.n_threads as i64);
    out.insert("f32_flops", machine.f32_flops);
    out.insert("int8_ops", machine.int8_ops.map_or(Value::Null, Value::from));
    let mut read = Object::new();
    for ((name, _), rate) in BUFFERS.iter().zip(machine.read) {
        read.insert(*name, rate);
    }
    out.insert("read_bytes", Value::Object(read));
    Value::Object(out)
}

fn pass_json(pass: &Measured) -> Value {
    let seconds = |samples: &[f64]| samples.iter().map(|s| Value::from(*s)).collect::<Vec<_>>();
    let entry = |flops: f64, samples: &[f64]| {
        let mut out = Object::new();
        out.insert("flops", flops);
        out.insert("seconds", median(samples));
        out.insert("of_peak", pass.share(flops, median(samples)));
        out.insert("samples", seconds(samples));
        out
    };
    let mut out = Object::new();
    out.insert("tokens", pass.row_tokens as i64);
    out.insert("rows", pass.n_rows as i64);
    out.insert("f32_flops", pass.f32_flops);
    out.insert("whole_pass", Value::Object(entry(pass.work.total(), &pass.total)));
    let mut phases = Object::new();
    for (phase, samples) in &pass.phases {
        phases.insert(name(*phase), Value::Object(entry(pass.work.phase(*phase), samples)));
    }
    out.insert("phases", Value::Object(phases));
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_its_help_fits() {
        crate::cli::sound::check(Arguments::command());
    }
}
