//! Layouts this build does not read.

use super::{MODERN_BERT, upstream};
use crate::error::{Error, ErrorKind};
use crate::gguf::File;

/// What a file that is not read is, and what runs it.
pub(super) fn refusal(file: &File, architecture: Option<&str>) -> Error {
    let Some(architecture) = architecture else {
        return file.error("not a laya GGUF: general.architecture is missing");
    };
    let unsupported = |message: String| file.locate(Error::new(ErrorKind::Unsupported, message));
    // llama.cpp's decision models say so under the name of their own architecture.
    let key = format!("{architecture}.decision.type");
    match file.str(&key) {
        Ok(None) => {}
        Ok(Some(family)) => {
            let message = format!(
                "is {family:?}: a decision model in llama.cpp's layout (architecture {architecture}) of another kind than \
                 Laya; llama.cpp's llama-server answers it at POST /v1/systemone, this build reads the kind {:?}",
                upstream::LAYA_TYPE
            );
            return unsupported(message).at_key(key);
        }
        Err(error) => return error,
    }
    const CONVERT: &str = "for answers convert the official checkpoint with laya-convert";
    match architecture {
        MODERN_BERT => unsupported(format!(
            "an encoder without a decision head (architecture modern-bert without {}), with which llama.cpp computes \
             embeddings; {CONVERT}",
            upstream::TYPE
        )),
        "ggmlc" => {
            unsupported(format!("a compiled graph (architecture ggmlc) that only the ggmlc runtime runs; {CONVERT}"))
        }
        "julia1" => unsupported(
            "a Julia-1 model (architecture julia1), whose rows differ from Laya's; julia1-cli runs it".to_owned(),
        ),
        "laya-head" => unsupported(format!(
            "a decision head without its encoder (architecture laya-head), half of a model; {CONVERT}"
        )),
        other => file.error(format!("not a laya GGUF: the architecture is {other:?}")),
    }
}
