//! The `general.*` keys: what a model is called, who made it, from what.
//!
//! Sources, strongest first: `--model-name`, the front matter of `README.md`, the directory name. The rules are those of
//! gguf-py's model metadata.

use std::path::{Path, PathBuf};

use super::card::Card;
use super::config::{Config, number, side_file};
use super::naming::{self, Name};
use super::yaml::Yaml;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::gguf::{Strings, Writer};
use crate::json;

/// A base model or a data set: key suffix and text, in file order.
type Origin = Vec<(&'static str, String)>;

/// The `general.*` keys of a model.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// Key suffix and value of the sampling settings.
    sampling: Vec<(&'static str, crate::gguf::Value)>,
    name: Option<String>,
    author: Option<String>,
    version: Option<String>,
    organization: Option<String>,
    finetune: Option<String>,
    basename: Option<String>,
    description: Option<String>,
    size_label: Option<String>,
    license: Option<String>,
    license_name: Option<String>,
    license_link: Option<String>,
    source: Vec<(&'static str, String)>,
    base_models: Option<Vec<Origin>>,
    datasets: Option<Vec<Origin>>,
    tags: Option<Vec<String>>,
    languages: Option<Vec<String>>,
}

impl Metadata {
    /// Collects the keys for the checkpoint in `dir` with `n_params` parameters.
    pub(super) fn read(dir: &Path, model_name: Option<&str>, n_params: u64) -> Result<Self> {
        let path = dir.join("README.md");
        let card = Reader { card: Card::read(&path)?, path };
        let mut metadata = Self::from_card(&card, n_params)?;
        metadata.sampling = sampling(dir)?;
        let id = directory_name(dir)?;
        let unnamed = |c: char| {
            let message = format!(
                "has {c:?} in its name, which the field's naming reads in its own way; rename the directory to convert it"
            );
            Error::new(ErrorKind::Checkpoint, message).in_file(dir)
        };
        let Name { full, organization, basename, finetune, version, size_label } =
            naming::parse(&id, n_params).map_err(unnamed)?;
        let title = |name: Option<String>| name.map(|name| naming::title(&name)).transpose().map_err(unnamed);
        let organization = title(organization)?;
        for (slot, found) in [
            (&mut metadata.name, title(full)?),
            (&mut metadata.organization, organization),
            (&mut metadata.basename, basename),
            (&mut metadata.finetune, finetune),
            (&mut metadata.version, version),
            (&mut metadata.size_label, size_label),
        ] {
            if slot.is_none() {
                *slot = found;
            }
        }
        if let Some(name) = model_name {
            metadata.name = Some(name.to_owned());
        }
        if metadata.size_label.is_none() && n_params > 0 {
            metadata.size_label = Some(naming::rounded(n_params));
        }
        Ok(metadata)
    }

    fn from_card(card: &Reader, n_params: u64) -> Result<Self> {
        let mut source = Vec::new();
        for (key, names) in [
            ("url", ["url", "model_url"]),
            ("doi", ["doi", "model_doi"]),
            ("uuid", ["uuid", "model_uuid"]),
            ("repo_url", ["repo_url", "model_repo_url"]),
        ] {
            source.extend(card.text(&names)?.map(|text| (key, text)));
        }
        Ok(Self {
            name: card.text(&["name", "model_name"])?,
            author: card.text(&["author", "model_author", "model_creator"])?,
            version: card.text(&["version", "model_version"])?,
            organization: card.text(&["organization", "model_organization"])?,
            finetune: card.text(&["finetune", "model_finetune"])?,
            basename: card.text(&["basename", "model_basename", "model_type"])?,
            description: card.text(&["description", "model_description"])?,
            size_label: card.text(&["size_label", "model_size_label"])?,
            license: card.list(&["license"])?.map(|names| names.join(",")),
            license_name: card.text(&["license_name"])?,
            license_link: card.text(&["license_link"])?,
            source,
            base_models: card.origins(&["base_model", "base_models", "base_model_sources"], n_params)?,
            datasets: card.origins(&["datasets", "dataset", "dataset_sources"], n_params)?,
            tags: card.lists(&["tags", "pipeline_tag"])?,
            languages: card.lists(&["languages", "language"])?,
            ..Self::default()
        })
    }

    /// Sets the keys, in their order. Empty texts and lists are left out.
    pub(super) fn set(&self, out: &mut Writer) {
        for (key, value) in &self.sampling {
            out.set(format!("general.sampling.{key}"), value.clone());
        }
        let mut text = |key: &str, text: &Option<String>| {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                out.set(format!("general.{key}"), text);
            }
        };
        text("name", &self.name);
        text("author", &self.author);
        text("version", &self.version);
        text("organization", &self.organization);
        text("finetune", &self.finetune);
        text("basename", &self.basename);
        text("description", &self.description);
        text("size_label", &self.size_label);
        text("license", &self.license);
        text("license.name", &self.license_name);
        text("license.link", &self.license_link);
        for (key, value) in &self.source {
            text(&format!("source.{key}"), &Some(value.clone()));
        }
        for (key, origins) in [("base_model", &self.base_models), ("dataset", &self.datasets)] {
            let Some(origins) = origins else { continue };
            out.set(format!("general.{key}.count"), u32::try_from(origins.len()).unwrap_or(u32::MAX));
            for (i, origin) in origins.iter().enumerate() {
                for (field, value) in origin.iter().filter(|(_, value)| !value.is_empty()) {
                    out.set(format!("general.{key}.{i}.{field}"), value.as_str());
                }
            }
        }
        for (key, list) in [("tags", &self.tags), ("languages", &self.languages)] {
            if let Some(list) = list.as_ref().filter(|list| !list.is_empty()) {
                out.set(format!("general.{key}"), list.iter().collect::<Strings>());
            }
        }
    }
}

/// The last part of the path; of a path such as `.` the directory it stands for.
pub(super) fn directory_name(dir: &Path) -> Result<String> {
    let real = dir.canonicalize().ok();
    let Some(name) = dir.file_name().or_else(|| real.as_deref()?.file_name()) else { return Ok(String::new()) };
    name.to_str().map(str::to_owned).ok_or_else(|| {
        let message = "has a name that is not UTF-8, and a GGUF file carries the name; rename the directory";
        Error::new(ErrorKind::Checkpoint, message).in_file(dir)
    })
}

/// A model card with errors that name file and line.
struct Reader {
    card: Card,
    path: PathBuf,
}

impl Reader {
    fn beyond(&self, key: &str, line: u64) -> Error {
        let message = format!("{key} is not one-line text or a list of it; put it in quotes on one line");
        Error::new(ErrorKind::Checkpoint, message).at(Place::Line(line)).in_file(&self.path)
    }

    /// The first of `keys` that has a value, which must be text.
    fn text(&self, keys: &[&str]) -> Result<Option<String>> {
        for key in keys {
            match self.card.get(key) {
                None | Some((Yaml::Null, _)) => {}
                Some((Yaml::Text(text), _)) => return Ok(Some(text.clone())),
                Some((_, line)) => return Err(self.beyond(key, line)),
            }
        }
        Ok(None)
    }

    /// The first of `keys` that is there, as a list; one text is a list of one.
    fn list(&self, keys: &[&str]) -> Result<Option<Vec<String>>> {
        for key in keys {
            let Some((value, line)) = self.card.get(key) else { continue };
            return match value {
                Yaml::Null => Ok(None),
                Yaml::Text(text) => Ok(Some(vec![text.clone()])),
                Yaml::List(items) => {
                    let texts = items.iter().map(|item| match item {
                        Yaml::Text(text) => Ok(text.clone()),
                        _ => Err(self.beyond(key, line)),
                    });
                    texts.collect::<Result<_>>().map(Some)
                }
                Yaml::Plain(_) | Yaml::Beyond => Err(self.beyond(key, line)),
            };
        }
        Ok(None)
    }

    /// All lists of `keys`, one after the other.
    fn lists(&self, keys: &[&str]) -> Result<Option<Vec<String>>> {
        let mut all: Option<Vec<String>> = None;
        for key in keys {
            if let Some(list) = self.list(&[key])? {
                all.get_or_insert_default().extend(list);
            }
        }
        Ok(all)
    }

    fn origins(&self, keys: &[&str], n_params: u64) -> Result<Option<Vec<Origin>>> {
        if keys.iter().all(|key| self.card.get(key).is_none()) {
            return Ok(None);
        }
        let ids = self.list(keys)?.unwrap_or_default();
        let origins = ids.iter().map(|id| {
            origin(id, n_params).map_err(|c| {
                let message =
                    format!("{c:?} in {id:?} is read by the field's naming in its own way; spell it otherwise");
                let line = keys.iter().find_map(|key| self.card.get(key)).map_or(0, |(_, line)| line);
                Error::new(ErrorKind::Checkpoint, message).at(Place::Line(line)).in_file(&self.path)
            })
        });
        origins.collect::<Result<_>>().map(Some)
    }
}

/// What a model id or a web address says about a base model or a data set; or the character that it cannot be read for.
fn origin(id: &str, n_params: u64) -> Result<Origin, char> {
    let address = ["http://", "https://", "ssh://"].iter().any(|scheme| id.starts_with(scheme));
    let path = if address { hub_path(id) } else { Some(id) };
    let mut found = Origin::new();
    let mut repo_url = address.then(|| id.to_owned());
    if let Some(path) = path {
        let name = naming::parse(path, n_params)?;
        if let Some(full) = &name.full {
            found.push(("name", naming::title(full)?));
        }
        // Keys are written in the order name, version, organization, repo_url.
        found.extend(name.version.map(|version| ("version", version)));
        if let Some(organization) = &name.organization {
            found.push(("organization", naming::title(organization)?));
        }
        if let (None, Some(organization), Some(full)) = (&repo_url, &name.organization, &name.full) {
            repo_url = Some(format!("https://huggingface.co/{organization}/{full}"));
        }
    }
    found.extend(repo_url.map(|url| ("repo_url", url)));
    Ok(found)
}

/// `organization/name` of a hub address with exactly two path parts.
fn hub_path(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"))?;
    let path = rest.strip_prefix("huggingface.co/")?;
    let (organization, name) = path.split_once('/')?;
    (!organization.is_empty() && !name.is_empty() && !name.contains('/')).then_some(path)
}

/// The sampling settings of `generation_config.json`, in the order of their keys. A file that is not JSON is ignored, as
/// the field's converter does.
fn sampling(dir: &Path) -> Result<Vec<(&'static str, crate::gguf::Value)>> {
    let path = dir.join("generation_config.json");
    let Some(file) = side_file(&path)? else { return Ok(Vec::new()) };
    let text = std::str::from_utf8(file.bytes());
    let text =
        text.map_err(|_| Error::new(ErrorKind::Checkpoint, "is not UTF-8 text; save it as such").in_file(&path))?;
    let value = match json::parse(file.bytes()) {
        // Python's reader refuses the mark that ours skips.
        Ok(_) if text.starts_with('\u{feff}') => return Ok(Vec::new()),
        Ok(value) => value,
        Err(error) => {
            // Python's reader takes these where ours does not; guessing what it read would be wrong.
            let surrogate = text.contains("\\ud") || text.contains("\\uD");
            let deep = text.bytes().filter(|c| matches!(c, b'[' | b'{')).count() >= json::MAX_DEPTH;
            if error.reason == json::Reason::UnsupportedNumber || surrogate || deep {
                return Err(Error::from(error).in_file(&path));
            }
            return Ok(Vec::new());
        }
    };
    let Some(object) = value.as_object() else {
        let message = format!("must hold a JSON object, not {}", value.python_type_name());
        return Err(Error::new(ErrorKind::Checkpoint, message).in_file(&path));
    };
    let config = Config::new(&path, object.clone());
    let keys = [
        ("sequence", "sequence", Kind::Text),
        ("top_k", "top_k", Kind::Integer),
        ("top_p", "top_p", Kind::Float),
        ("min_p", "min_p", Kind::Float),
        ("xtc_probability", "xtc_probability", Kind::Float),
        ("xtc_threshold", "xtc_threshold", Kind::Float),
        ("temperature", "temp", Kind::Float),
        ("penalty_last_n", "penalty_last_n", Kind::Integer),
        ("penalty_repeat", "penalty_repeat", Kind::Float),
        ("mirostat", "mirostat", Kind::Integer),
        ("mirostat_tau", "mirostat_tau", Kind::Float),
        ("mirostat_eta", "mirostat_eta", Kind::Float),
    ];
    let mut settings = Vec::new();
    for (key, name, kind) in keys {
        let Some(value) = config.get(key) else { continue };
        let read = match kind {
            Kind::Text => value.as_str().map(Into::into),
            Kind::Integer => value.as_i64().and_then(|n| i32::try_from(n).ok()).map(Into::into),
            Kind::Float => number(value).map(Into::into),
        };
        let Some(read) = read else {
            return Err(config.error(key, format!("must be {}, not {}", kind.name(), value.dumps())));
        };
        if value.as_str() != Some("") {
            settings.push((name, read));
        }
    }
    Ok(settings)
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Float,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "an integer",
            Self::Float => "a number",
        }
    }
}
