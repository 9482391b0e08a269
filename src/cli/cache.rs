//! The conversion cache on the command line.

use crate::convert::cache::Cache;
use crate::error::{Error, ErrorKind, Result};
use std::env;
use std::path::PathBuf;

/// The cache in `dir`, else the user's.
///
/// # Errors
/// None is named and the user has no cache directory.
pub(super) fn named(dir: Option<PathBuf>) -> Result<Cache> {
    let dir = dir.or_else(|| Cache::default_dir(|name| env::var_os(name)));
    dir.map(Cache::at).ok_or_else(|| {
        let message =
            "there is no place for the conversion cache: name one with --convert-cache DIR, or in $LAYA_CACHE";
        Error::new(ErrorKind::Usage, message)
    })
}
