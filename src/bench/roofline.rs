//! A pass, phase by phase, against the limits of the machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::work::Work;
use crate::error::Result;
use crate::kernels::{InstructionSet, Threads, peak};
use crate::model::{Control, Model, Phase, Row, Trace};

/// Buffer sizes whose reading is measured: inside a second-level cache, inside a third-level cache, beyond both.
pub const BUFFERS: [(&str, usize); 3] = [("L2", 256 << 10), ("L3", 4 << 20), ("memory", 256 << 20)];

/// The limits of the machine with some number of threads.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Threads.
    pub n_threads: usize,
    /// Floating-point operations a second in `f32` multiply-adds.
    pub f32_flops: f64,
    /// Operations a second in eight-bit multiply-adds, where the processor has them.
    pub int8_ops: Option<f64>,
    /// Bytes a second, for each of [`BUFFERS`].
    pub read: [f64; 3],
}

impl Machine {
    /// Measures the limits; takes about a second a thread count.
    ///
    /// # Errors
    /// The system refuses the threads.
    pub fn measure(isa: InstructionSet, n_threads: usize) -> Result<Self> {
        let threads = Threads::new(n_threads)?;
        Ok(Self {
            n_threads,
            f32_flops: peak::fma_flops(isa, &threads),
            int8_ops: peak::int8_ops(&threads),
            read: BUFFERS.map(|(_, n_bytes)| peak::read_bytes(isa, &threads, n_bytes)),
        })
    }
}

/// What was measured of a pass.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Tokens of each row.
    pub row_tokens: usize,
    /// Rows.
    pub n_rows: usize,
    /// The work.
    pub work: Work,
    /// Peak of the machine in `f32` multiply-adds, measured between the passes; the best.
    pub f32_flops: f64,
    /// Seconds of the whole pass, one a repeat, ascending.
    pub total: Vec<f64>,
    /// Seconds of every phase, one a repeat, ascending.
    pub phases: BTreeMap<Phase, Vec<f64>>,
}

/// The middle of ascending samples.
pub fn median(samples: &[f64]) -> f64 {
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Measured {
    /// The share of the peak that `flops` in `seconds` are.
    pub fn share(&self, flops: f64, seconds: f64) -> f64 {
        flops / seconds / self.f32_flops
    }
}

/// Options of a row of the measured pass.
const N_OPTIONS: usize = 4;

/// Times `repeats` passes over `n_rows` rows of `row_tokens` tokens, after one that warms up.
///
/// # Errors
/// The model has no row of so many tokens.
pub fn measure(model: &Model, row_tokens: usize, n_rows: usize, repeats: usize) -> Result<Measured> {
    let n_vocab = model.config().n_vocab;
    let n_options = N_OPTIONS.min(row_tokens.saturating_sub(1));
    let ids: Vec<Vec<u32>> = (0..n_rows)
        .map(|row| (0..row_tokens).map(|i| ((i * 7919 + row * 104_729) % n_vocab) as u32).collect())
        .collect();
    let markers: Vec<u32> = (1..=n_options as u32).collect();
    let rows: Vec<_> = ids.iter().map(|ids| Row { ids, markers: &markers, kind: 0 }).collect();
    let work = Work::of(model.config(), model.act_width(), &vec![(row_tokens, n_options); n_rows]);
    let mut measured =
        Measured { row_tokens, n_rows, work, f32_flops: 0.0, total: Vec::new(), phases: BTreeMap::new() };
    model.forward(&rows)?;
    for _ in 0..repeats {
        measured.f32_flops = measured.f32_flops.max(peak::fma_flops(model.instruction_set(), model.threads()));
        let mut clock = Clock { at: Instant::now(), phases: BTreeMap::new() };
        let start = Instant::now();
        model.forward_traced(&rows, Control::default(), &mut clock)?;
        measured.total.push(start.elapsed().as_secs_f64());
        for (phase, time) in clock.phases {
            measured.phases.entry(phase).or_default().push(time.as_secs_f64());
        }
    }
    measured.total.sort_by(f64::total_cmp);
    measured.phases.values_mut().for_each(|samples| samples.sort_by(f64::total_cmp));
    Ok(measured)
}

/// Time between the phases of a pass.
struct Clock {
    at: Instant,
    phases: BTreeMap<Phase, Duration>,
}

impl Trace for Clock {
    fn phase(&mut self, phase: Phase) {
        let now = Instant::now();
        *self.phases.entry(phase).or_default() += now - self.at;
        self.at = now;
    }
}
