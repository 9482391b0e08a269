//! Which model file to open, and the arguments every tool that runs a model shares.

use crate::error::{Error, ErrorKind, Result};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The environment variable that names a model.
const VARIABLE: &str = "LAYA_MODEL";

/// Arguments of a tool that runs a model.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArguments {
    /// Model file (GGUF). Without it: $LAYA_MODEL, then model.gguf in the user's laya configuration directory
    #[arg(short, long, value_name = "MODEL.gguf")]
    model: Option<PathBuf>,
}

impl ModelArguments {
    /// The model file named on the command line or in the environment; none is fine.
    pub(super) fn named(self) -> Option<PathBuf> {
        self.model.or_else(|| env::var_os(VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from))
    }

    /// The model file to open.
    ///
    /// # Errors
    /// None is named and none is in the user's configuration directory.
    pub(super) fn path(self) -> Result<PathBuf> {
        find(self.model, |name| env::var_os(name))
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
                "no model: name one with -m MODEL.gguf, or in ${VARIABLE}{or_put}; to make one from a checkpoint \
                 directory: laya-convert CHECKPOINT -o model.gguf"
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
}
