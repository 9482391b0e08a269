//! JSON Schemas (draft 2020-12) of what the tools read and print.
//!
//! A schema never refuses what the tools accept. It may accept more where JSON Schema has no words for a rule, such as
//! integers written `1.0` or labels that repeat after white space is stripped; its description names those.

/// A JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it describes.
    pub of: &'static str,
    /// The schema, JSON text.
    pub text: &'static str,
}

impl Schema {
    /// Every schema.
    pub const ALL: [Self; 4] = [
        Self { name: "spec", of: "decision.spec, version 1", text: include_str!("spec.json") },
        Self {
            name: "request",
            of: "a request of laya-cli and POST /v1/systemone",
            text: include_str!("request.json"),
        },
        Self { name: "answer", of: "the answer to one question", text: include_str!("answer.json") },
        Self { name: "response", of: "what laya-cli prints for a request", text: include_str!("response.json") },
    ];

    /// The schema called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schema| schema.name == name)
    }
}
