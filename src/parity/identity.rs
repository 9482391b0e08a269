//! What ran: the record that decides whether two runs may be compared.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::spec::is_sha256;

/// Name of this record's format.
pub(super) const SCHEMA: &str = "laya-parity-identity/1";

/// Types activations may have in matrix products: floats, and the block format that quantizes them.
pub const ACTIVATIONS: [&str; 4] = ["f32", "f16", "bf16", "q8_0"];

/// What computed a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The published package.
    Reference,
    /// The engine of this library, in the same process.
    Engine,
    /// A server over HTTP.
    Server,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Reference, Self::Engine, Self::Server];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Engine => "engine",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Everything that could make a run another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// What computed it.
    pub kind: Kind,
    /// On what machine.
    pub host: Host,
    /// The program.
    pub build: Build,
    /// The model.
    pub model: Model,
    /// The requests.
    pub corpus: CorpusIdentity,
    /// How it was set up.
    pub runtime: Runtime,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Operating system, such as `linux`.
    pub os: String,
    /// Architecture, such as `x86_64`.
    pub machine: String,
    /// The processor's name.
    pub cpu: String,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Its version, as it gives it.
    pub version: String,
    /// SHA-256 of the program file.
    pub sha256: Option<String>,
    /// SHA-256 over the source files it was built from.
    pub source_sha256: Option<String>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// SHA-256 of the model file; a checkpoint directory has none.
    pub sha256: Option<String>,
    /// The weights as float32 values, whatever they are stored as, see [`values_sha256`](super::values_sha256): the same
    /// for a checkpoint and a file converted from it without loss.
    pub values_sha256: Option<String>,
    /// Its architecture.
    pub architecture: Option<String>,
    /// How its matrices are stored: `f32`, `f16`, `q8_0`, `q8_0-mixed`.
    pub weights: String,
    /// Commit of the published checkpoint, 40 hexadecimal digits.
    pub revision: Option<String>,
}

/// The requests of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusIdentity {
    /// SHA-256 of the whole corpus file.
    pub sha256: String,
    /// Which of its items: `all`, `english`, or a shard of one, such as `all 0/4`.
    pub subset: String,
    /// Items of the run.
    pub n_items: u64,
    /// Their questions.
    pub n_questions: u64,
}

/// How a backend was set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// What computes: `cpu` for this library's engine, `pytorch`, or what a server calls its own.
    pub backend: String,
    /// The device, such as `cpu`.
    pub device: Option<String>,
    /// The kernels.
    pub kernels: Option<String>,
    /// The instruction set.
    pub isa: Option<String>,
    /// Which rows share a pass.
    pub plan: Option<String>,
    /// Threads.
    pub n_threads: Option<u64>,
    /// Number of the numeric contract: runs under one contract have the same bits.
    pub numeric_contract: Option<u64>,
    /// Type of the activations in matrix products, one of [`ACTIVATIONS`] in runs that can be judged by it. None is
    /// unknown.
    pub activations: Option<String>,
    /// Version of the calibration in force.
    pub calibration: Option<String>,
    /// SHA-256 of the spec in force.
    pub spec_sha256: Option<String>,
}

impl Identity {
    /// As a JSON object.
    pub fn to_json(&self) -> Object {
        let Self { kind, host, build, model, corpus, runtime } = self;
        let mut object = Object::new();
        object.insert("schema", SCHEMA);
        object.insert("kind", kind.as_str());
        object.insert(
            "host",
            object_of([("os", text(&host.os)), ("machine", text(&host.machine)), ("cpu", text(&host.cpu))]),
        );
        let build = [
            ("version", text(&build.version)),
            ("sha256", option(&build.sha256)),
            ("source_sha256", option(&build.source_sha256)),
        ];
        object.insert("build", object_of(build));
        let model = [
            ("name", text(&model.name)),
            ("sha256", option(&model.sha256)),
            ("values_sha256", option(&model.values_sha256)),
            ("architecture", option(&model.architecture)),
            ("weights", text(&model.weights)),
            ("revision", option(&model.revision)),
        ];
        object.insert("model", object_of(model));
        let corpus = [
            ("sha256", text(&corpus.sha256)),
            ("subset", text(&corpus.subset)),
            ("n_items", corpus.n_items.into()),
            ("n_questions", corpus.n_questions.into()),
        ];
        object.insert("corpus", object_of(corpus));
        let count = |n: Option<u64>| n.map_or(Value::Null, Value::from);
        let runtime = [
            ("backend", text(&runtime.backend)),
            ("device", option(&runtime.device)),
            ("kernels", option(&runtime.kernels)),
            ("isa", option(&runtime.isa)),
            ("plan", option(&runtime.plan)),
            ("n_threads", count(runtime.n_threads)),
            ("numeric_contract", count(runtime.numeric_contract)),
            ("activations", option(&runtime.activations)),
            ("calibration", option(&runtime.calibration)),
            ("spec_sha256", option(&runtime.spec_sha256)),
        ];
        object.insert("runtime", object_of(runtime));
        object
    }

    /// Reads [`Identity::to_json`] back.
    ///
    /// # Errors
    /// A key is missing, too much or of the wrong kind; the error names it.
    pub fn from_json(value: &Value) -> Result<Self> {
        const KEYS: [&str; 7] = ["schema", "kind", "host", "build", "model", "corpus", "runtime"];
        let root = Fields::new("identity", Some(value), &KEYS)?;
        let schema = root.text("schema")?;
        if schema != SCHEMA {
            return Err(root.fault("schema", &format!("is {schema:?}; this build reads {SCHEMA:?}")));
        }
        let kind = root.text("kind")?;
        let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
        let host = root.fields("host", &["os", "machine", "cpu"])?;
        let build = root.fields("build", &["version", "sha256", "source_sha256"])?;
        let model =
            root.fields("model", &["name", "sha256", "values_sha256", "architecture", "weights", "revision"])?;
        let corpus = root.fields("corpus", &["sha256", "subset", "n_items", "n_questions"])?;
        const RUNTIME: [&str; 10] = [
            "backend",
            "device",
            "kernels",
            "isa",
            "plan",
            "n_threads",
            "numeric_contract",
            "activations",
            "calibration",
            "spec_sha256",
        ];
        let runtime = root.fields("runtime", &RUNTIME)?;
        Ok(Self {
            kind: kind.ok_or_else(|| root.fault("kind", "must be reference, engine or server"))?,
            host: Host { os: host.text("os")?, machine: host.text("machine")?, cpu: host.text("cpu")? },
            build: Build {
                version: build.text("version")?,
                sha256: build.sha256("sha256")?,
                source_sha256: build.sha256("source_sha256")?,
            },
            model: Model {
                name: model.text("name")?,
                sha256: model.sha256("sha256")?,
                values_sha256: model.sha256("values_sha256")?,
                architecture: model.option("architecture")?,
                weights: model.text("weights")?,
                revision: model.option("revision")?,
            },
            corpus: CorpusIdentity {
                sha256: corpus.sha256("sha256")?.ok_or_else(|| corpus.fault("sha256", "is missing"))?,
                subset: corpus.text("subset")?,
                n_items: corpus.require_count("n_items")?,
                n_questions: corpus.require_count("n_questions")?,
            },
            runtime: Runtime {
                backend: runtime.text("backend")?,
                device: runtime.option("device")?,
                kernels: runtime.option("kernels")?,
                isa: runtime.option("isa")?,
                plan: runtime.option("plan")?,
                n_threads: runtime.count("n_threads")?,
                numeric_contract: runtime.count("numeric_contract")?,
                activations: runtime.option("activations")?,
                calibration: runtime.option("calibration")?,
                spec_sha256: runtime.sha256("spec_sha256")?,
            },
        })
    }
}

fn object_of<const N: usize>(members: [(&str, Value); N]) -> Object {
    let mut object = Object::new();
    for (key, value) in members {
        object.insert(key, value);
    }
    object
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn option(text: &Option<String>) -> Value {
    text.as_deref().map_or(Value::Null, Value::from)
}

/// An object of a record, read strictly: unknown keys are as wrong as missing ones.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    object: &'a Object,
    path: String,
}

impl<'a> Fields<'a> {
    /// The object `value` at `path`, which may have `keys` and no other.
    pub(super) fn new(path: &str, value: Option<&'a Value>, keys: &[&str]) -> Result<Self> {
        let fault = |message: String| Error::new(ErrorKind::Json, message).at_path(path);
        let object = value.and_then(Value::as_object).ok_or_else(|| fault("must be an object".into()))?;
        if let Some(key) = object.keys().find(|key| !keys.contains(key)) {
            return Err(fault(format!("has the unknown key {key:?}")));
        }
        Ok(Self { object, path: path.to_owned() })
    }

    fn fields(&self, key: &str, keys: &[&str]) -> Result<Self> {
        Self::new(&format!("{}.{key}", self.path), self.object.get(key), keys)
    }

    /// That `key` is wrong.
    pub(super) fn fault(&self, key: &str, message: &str) -> Error {
        Error::new(ErrorKind::Json, message).at_path(format!("{}.{key}", self.path))
    }

    /// Whatever is at `key`, null included.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key)
    }

    /// The text at `key`.
    pub(super) fn text(&self, key: &str) -> Result<String> {
        self.option(key)?.ok_or_else(|| self.fault(key, "must be text"))
    }

    /// The text at `key`, unless it is null or missing.
    pub(super) fn option(&self, key: &str) -> Result<Option<String>> {
        match self.object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.fault(key, "must be text or null")),
        }
    }

    /// The hash at `key`, unless it is null or missing.
    fn sha256(&self, key: &str) -> Result<Option<String>> {
        match self.option(key)? {
            Some(text) if !is_sha256(&text) => Err(self.fault(key, "must be 64 lower-case hexadecimal digits")),
            hash => Ok(hash),
        }
    }

    /// The count at `key`, unless it is null or missing.
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>> {
        match self.object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.fault(key, "must be a count or null")),
        }
    }

    /// The count at `key`.
    pub(super) fn require_count(&self, key: &str) -> Result<u64> {
        self.count(key)?.ok_or_else(|| self.fault(key, "must be a count"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::json;

    const TEXT: &str = r#"{"schema":"laya-parity-identity/1","kind":"engine","host":{"os":"linux","machine":"x86_64","cpu":"c"},"build":{"version":"1","sha256":null,"source_sha256":null},"model":{"name":"m","sha256":null,"values_sha256":null,"architecture":"laya","weights":"f16","revision":null},"corpus":{"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","subset":"all","n_items":2,"n_questions":3},"runtime":{"backend":"cpu","device":"cpu","kernels":"default","isa":"avx2","plan":"packed","n_threads":2,"numeric_contract":1,"activations":"f32","calibration":null,"spec_sha256":null}}"#;

    /// A run of an engine.
    pub(in crate::parity) fn example() -> Identity {
        read(TEXT).unwrap()
    }

    fn read(text: &str) -> Result<Identity> {
        Identity::from_json(&json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let identity = read(TEXT).unwrap();
        assert_eq!(identity.kind, Kind::Engine);
        assert_eq!(Value::Object(identity.to_json()).dumps_compact(), TEXT);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, says) in [
            ("identity/1", "identity/9", "identity.schema: is \"laya-parity-identity/9\""),
            ("\"engine\"", "\"engines\"", "identity.kind: must be"),
            ("\"os\":\"linux\"", "\"os\":3", "identity.host.os: must be text"),
            ("\"os\":\"linux\",", "", "identity.host.os: must be text"),
            ("\"cpu\":\"c\"", "\"cpu\":\"c\",\"x\":1", "identity.host: has the unknown key \"x\""),
            ("\"0123456789", "\"X123456789", "identity.corpus.sha256: must be 64"),
            ("\"n_items\":2", "\"n_items\":-2", "identity.corpus.n_items: must be a count"),
            ("\"numeric_contract\":1", "\"numeric_contract\":1.5", "identity.runtime.numeric_contract: must be"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let error = read(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }
}
