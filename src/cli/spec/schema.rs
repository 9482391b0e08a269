//! `gguf-spec schema`: the shapes of what the tools read and print, as JSON Schema.

use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::stdout::Stdout;
use crate::cli::table::table;
use crate::schema::Schema;
use clap::builder::PossibleValuesParser;

const LONG_ABOUT: &str = "\
Prints a JSON Schema (draft 2020-12), or lists those there are.

A schema accepts whatever the tools accept. What JSON Schema has no words for, the tools check
beyond it; each schema says in its description what that is.";

/// Arguments of `gguf-spec schema`.
#[derive(Debug, clap::Args)]
#[command(about = "Prints a JSON Schema of specs, requests or answers", long_about = LONG_ABOUT)]
#[command(after_help = EXIT_HELP)]
pub(super) struct SchemaArguments {
    /// Which; without it they are listed
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(Schema::ALL.map(|schema| schema.name)))]
    name: Option<String>,
}

/// Prints the schema, or the list.
pub(super) fn schema(arguments: &SchemaArguments) -> Result<Exit, Stop> {
    let mut stdout = Stdout::open();
    match arguments.name.as_deref().and_then(Schema::named) {
        Some(schema) => stdout.line(schema.text.trim_end().to_owned())?,
        None => {
            let mut table = table(&["name", "of"], 2);
            for schema in Schema::ALL {
                table.add_row([schema.name, schema.of]);
            }
            stdout.line(table.trim_fmt())?;
        }
    }
    Ok(Exit::Done)
}
