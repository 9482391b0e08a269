//! Which layout a GGUF file has, and a view of it that the loader reads.
//!
//! Decision models come in several GGUF layouts: the same tensors under other names, or other models altogether. The
//! loader, the tokenizer and the budgets know one of them, `general.architecture = laya`. [`read`] takes a file of any
//! layout and gives a [`View`] in that one, or says what the file is and what runs it:
//!
//! | file | read as |
//! |---|---|
//! | `laya` | itself |
//! | `modern-bert` with `modern-bert.decision.type = laya`: llama.cpp's | keys and tensors renamed, see [`upstream`] |
//! | anything else | an error that names the layout, see [`Kind`] |
//!
//! [`identify()`] says of any file which of them it is, and fails for none. A view shares the tensor data with its file. Nothing after this module asks which layout a file had.

mod identify;
mod inventory;
mod kind;
mod name;
pub mod upstream;
mod vocabulary;

use std::borrow::Cow;

use crate::error::{Error, Place, Result};
use crate::gguf::File;

pub use identify::{Calibration, Identity, Sizes, TypeUse, Vocabulary, VocabularyFamily, identify};
pub use kind::{Kind, Runner};
pub use name::Names;
pub use vocabulary::{Pretokenizer, added_flags, is_run_of_spaces};

/// The architecture of the layout the loader reads.
const LAYA: &str = "laya";
/// The architecture of llama.cpp's layout.
const MODERN_BERT: &str = "modern-bert";
/// The key that names the recipe by which the tensors of a file were stored, where one protected some of them.
pub const RECIPE_KEY: &str = "decision.laya.recipe";

/// A file as the loader reads it.
#[derive(Debug)]
pub struct View<'a> {
    file: Cow<'a, File>,
    /// What keys and tensors are called in the file itself, where that is another name.
    names: Option<Names>,
}

impl View<'_> {
    /// The keys and tensors under the names of the laya layout.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// `error`, met while reading the view, with the key or tensor called as the file itself calls it.
    pub fn in_own_names(&self, error: Error) -> Error {
        let Some(names) = &self.names else { return error };
        let place = match error.place() {
            Some(Place::Key(key)) => Place::Key(names.own_key(key).into_owned()),
            Some(Place::Tensor(name)) => match names.own_tensor(name) {
                Some(own) => Place::Tensor(own),
                None => return error,
            },
            _ => return error,
        };
        let renamed = Error::new(error.kind(), error.message());
        let renamed = error.file().into_iter().fold(renamed, |renamed, file| renamed.in_file(file));
        renamed.at(place)
    }
}

/// Whether `file` is, by its keys, a Laya model in a layout that [`read`] reads; whether it is a sound one is for `read` to
/// say.
pub fn is_laya(file: &File) -> bool {
    Kind::of(file).is_ok_and(|kind| kind.runners().contains(&Runner::ThisToolbox))
}

/// Recognizes the layout of `file`.
///
/// # Errors
/// The file is of a layout this build does not read, which the error names together with what runs it; or it is of
/// llama.cpp's layout and a key or tensor is missing, of the wrong type, or contradicts another.
pub fn read(file: &File) -> Result<View<'_>> {
    match Kind::of(file)? {
        Kind::Laya => Ok(View { file: Cow::Borrowed(file), names: None }),
        Kind::ModernBert => {
            let (view, names) = upstream::view(file)?;
            Ok(View { file: Cow::Owned(view), names: Some(names) })
        }
        kind => Err(kind.refusal(file)),
    }
}
