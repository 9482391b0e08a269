//! Which model file to open, and the arguments every tool that runs a model shares.
//!
//! A checkpoint directory is a model too: it is converted once, and the file in the cache is opened like any other.

use super::progress::Progress;
use super::{cache, stderr, stored};
use crate::convert::Outtype;
use crate::convert::cache::Event;
use crate::error::{Error, ErrorKind, Result};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The environment variable that names a model.
const VARIABLE: &str = "LAYA_MODEL";

/// Arguments of a tool that runs a model.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArguments {
    /// Model file (GGUF), or a checkpoint directory. Without it: $LAYA_MODEL, then model.gguf in the
    /// user's laya configuration directory
    #[arg(short, long, value_name = "MODEL.gguf|DIR")]
    model: Option<PathBuf>,
    /// Conversion cache. Without it: $LAYA_CACHE, then laya/gguf in the user's cache directory
    #[arg(long, value_name = "DIR", help_heading = CONVERSION)]
    convert_cache: Option<PathBuf>,
    /// How matrices are stored: f32, f16 or q8_0-mixed [default: f16]
    #[arg(long, value_name = "TYPE", value_parser = convert_type, help_heading = CONVERSION)]
    convert_type: Option<Outtype>,
}

const CONVERSION: &str = "A checkpoint directory as the model (converted once, then kept in the cache)";

/// Reads a type the accuracy of which is known.
fn convert_type(text: &str) -> Result<Outtype, String> {
    const OFFERED: [Outtype; 3] = [Outtype::F32, Outtype::F16, Outtype::Q8_0Mixed];
    match text.parse() {
        Ok(outtype) if OFFERED.contains(&outtype) => Ok(outtype),
        Ok(Outtype::Q8_0) => {
            Err("q8_0 quantizes the embeddings, the scorer and the act head too, and its accuracy is not \
                                  measured; q8_0-mixed is the recipe that protects them"
                .into())
        }
        _ => Err(format!("it is one of {}", OFFERED.map(Outtype::as_str).join(", "))),
    }
}

/// A model, ready to be opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModelFile {
    /// As it was named.
    pub(super) name: PathBuf,
    /// The file (GGUF).
    pub(super) path: PathBuf,
}

impl ModelFile {
    /// What the default spec of a checkpoint directory calls the model: the directory's name, not that of its file in the
    /// cache. `None` for a file, which goes by its own.
    pub(super) fn id(&self) -> Option<String> {
        let folder = self.name.canonicalize().ok().filter(|path| path.is_dir())?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    }
}

impl ModelArguments {
    /// The model named on the command line or in the environment; none is fine. A checkpoint directory is converted, or
    /// found converted; `tool` is who says so.
    ///
    /// # Errors
    /// The checkpoint cannot be converted.
    pub(super) fn named(self, tool: &str) -> Result<Option<ModelFile>> {
        let variable = || env::var_os(VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from);
        let name = self.model.clone().or_else(variable);
        name.map(|name| self.ready(tool, name)).transpose()
    }

    /// The path of the model as it is named, which may be a checkpoint directory and may not be there.
    ///
    /// # Errors
    /// None is named and none is in the user's configuration directory.
    pub(super) fn name(&self) -> Result<PathBuf> {
        find(self.model.clone(), |name| env::var_os(name))
    }

    /// The model to open, as [`ModelArguments::named`].
    ///
    /// # Errors
    /// None is named and none is in the user's configuration directory, or the checkpoint cannot be converted.
    pub(super) fn file(self, tool: &str) -> Result<ModelFile> {
        let name = self.name()?;
        self.ready(tool, name)
    }

    /// The model called `name`, which is converted or found converted if it is a directory.
    fn ready(self, tool: &str, name: PathBuf) -> Result<ModelFile> {
        if !name.is_dir() {
            let (of_cache, of_type) = (self.convert_cache.is_some(), self.convert_type.is_some());
            for option in [of_cache.then_some("--convert-cache"), of_type.then_some("--convert-type")] {
                // That a file is not there is said when it is opened.
                if let Some(option) = option.filter(|_| name.exists()) {
                    let why = "is a model file already; it is for checkpoint directories";
                    stderr::note(tool, &format!("{option} is not used: {} {why}", name.display()));
                }
            }
            return Ok(ModelFile { path: name.clone(), name });
        }
        let cache = cache::named(self.convert_cache)?;
        let outtype = self.convert_type.unwrap_or_default();
        // It shows once there is something to show.
        let mut progress = None;
        let mut has_started = false;
        let cached = cache.open(&name, outtype, &mut |event| match event {
            Event::Waiting => stderr::line("laya: waiting for another process, which converts this checkpoint"),
            Event::Started => has_started = true,
            Event::Converting { done, total } => {
                progress.get_or_insert_with(Progress::over_bytes).written(done, total);
            }
        });
        drop(progress);
        let cached = cached.map_err(|error| {
            // One about the directory itself, or about what it was named as, says all there is to say.
            if !has_started || error.file() == Some(name.as_path()) {
                return error;
            }
            let message = format!("cannot convert the checkpoint directory {}: {error}", name.display());
            Error::new(error.kind(), message)
        })?;
        for note in &cached.notes {
            stderr::note(tool, note);
        }
        let path = cached.path;
        let facts = format!("({}, {})", outtype.as_str(), stored::size(cached.n_bytes));
        stderr::line(&match cached.convert_time {
            Some(time) => format!("laya: converted: {} in {:.2} s {facts}", path.display(), time.as_secs_f64()),
            None => format!("laya: cache hit: {} {facts}", path.display()),
        });
        Ok(ModelFile { name, path })
    }
}

/// `given`, else the environment's, else the one in the user's configuration directory.
fn find(given: Option<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    // A variable set to nothing is one not set.
    let path_in = |name: &str| variable(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    if let Some(model) = given.or_else(|| path_in(VARIABLE)) {
        return Ok(model);
    }
    let configuration = if cfg!(windows) {
        path_in("APPDATA")
    } else {
        path_in("XDG_CONFIG_HOME").or_else(|| Some(path_in("HOME")?.join(".config")))
    };
    let place = configuration.map(|folder| folder.join("laya").join("model.gguf"));
    match place {
        Some(model) if model.is_file() => Ok(model),
        place => {
            let or_put = place.map_or(String::new(), |model| format!(", or put one at {}", model.display()));
            let message = format!(
                "no model: name a model file or a checkpoint directory with -m, or in ${VARIABLE}{or_put}; to make a \
                 model file from a checkpoint directory: laya-convert CHECKPOINT -o model.gguf"
            );
            Err(Error::new(ErrorKind::Usage, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_wins() {
        let home = tempfile::tempdir().unwrap();
        let set = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(v))).collect();
            move |name: &str| pairs.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone())
        };
        let home_text = home.path().to_str().unwrap();
        let (config, home_key) = if cfg!(windows) { ("", "APPDATA") } else { (".config", "HOME") };
        let there = home.path().join(config).join("laya");

        let error = find(None, set(&[(home_key, home_text)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.message().contains("laya-convert") && error.message().contains(home_text), "{error}");
        assert!(find(None, set(&[])).is_err());

        std::fs::create_dir_all(&there).unwrap();
        std::fs::write(there.join("model.gguf"), "").unwrap();
        assert_eq!(find(None, set(&[(home_key, home_text), (VARIABLE, "")])).unwrap(), there.join("model.gguf"));
        assert_eq!(
            find(None, set(&[(home_key, home_text), (VARIABLE, "env.gguf")])).unwrap(),
            PathBuf::from("env.gguf")
        );
        assert_eq!(
            find(Some("given.gguf".into()), set(&[(VARIABLE, "env.gguf")])).unwrap(),
            PathBuf::from("given.gguf")
        );
    }
    #[test]
    fn types_of_known_accuracy_are_offered() {
        for outtype in [Outtype::F32, Outtype::F16, Outtype::Q8_0Mixed] {
            assert_eq!(convert_type(outtype.as_str()), Ok(outtype));
        }
        assert!(convert_type("q8_0").unwrap_err().contains("q8_0-mixed is the recipe"));
        assert_eq!(convert_type("q4").unwrap_err(), "it is one of f32, f16, q8_0-mixed");
    }
}
