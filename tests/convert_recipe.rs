//! The protected recipe, quantizing a file, plans and what is reported.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod tiny;

use laya::convert::synth::{self, Arch, Dtype};
use laya::convert::{self, Loss, Options, Outtype};
use laya::engine::{self, Engine};
use laya::error::{ErrorKind, Place};
use laya::gguf::{File, TensorType};
use std::fs;
use std::path::{Path, PathBuf};

const RECIPE_KEY: &str = "decision.laya.recipe";

fn checkpoint(dir: &Path, arch: Arch, dtype: Dtype) -> PathBuf {
    let path = dir.join("a-checkpoint");
    synth::write_checkpoint(&path, &synth::Options { dtype, ..synth::Options::new(arch) }, &mut |_, _| {}).unwrap();
    path
}

fn converted(checkpoint: &Path, outtype: Outtype) -> PathBuf {
    let out = checkpoint.with_extension(outtype.as_str());
    convert::convert(checkpoint, &out, &Options { outtype, ..Options::default() }).unwrap();
    out
}

fn quantized(input: &Path, outtype: Outtype) -> PathBuf {
    let out = input.with_extension("quantized");
    let report = convert::quantize(input, &out, outtype, true, &mut |_, _| {}).unwrap();
    assert_eq!(report.proof.unwrap().n_tensors, report.n_tensors);
    out
}

#[test]
fn a_recipe_from_the_checkpoint_and_from_its_float_files_is_one_file() {
    for arch in [Arch::TinyMmbert, Arch::TinyModernbert] {
        for dtype in [Dtype::F16, Dtype::F32] {
            let dir = tempfile::tempdir().unwrap();
            let checkpoint = checkpoint(dir.path(), arch, dtype);
            for outtype in [Outtype::Q8_0Mixed, Outtype::Q8_0, Outtype::F16] {
                let direct = fs::read(converted(&checkpoint, outtype)).unwrap();
                let from_f32 = fs::read(quantized(&converted(&checkpoint, Outtype::F32), outtype)).unwrap();
                assert!(direct == from_f32, "{} from F32", outtype.as_str());
                // From F16 only when the checkpoint has no more than that.
                let from_f16 = fs::read(quantized(&converted(&checkpoint, Outtype::F16), outtype)).unwrap();
                assert_eq!(direct == from_f16, dtype == Dtype::F16 || outtype == Outtype::F16, "{}", outtype.as_str());
            }
        }
    }
}

#[test]
fn the_recipe_protects_what_it_says_and_names_itself() {
    let dir = tempfile::tempdir().unwrap();
    let file =
        File::open(&converted(&checkpoint(dir.path(), Arch::TinyMmbert, Dtype::F16), Outtype::Q8_0Mixed)).unwrap();
    assert_eq!(file.str(RECIPE_KEY).unwrap(), Some("q8_0-mixed"));
    assert_eq!(Outtype::of(&file).unwrap(), Some(Outtype::Q8_0Mixed));
    assert_eq!(file.require_u32("general.file_type").unwrap(), 7);
    let mut n_blocks = 0;
    for tensor in file.tensors() {
        let layer = tensor.name.starts_with("blk.") || tensor.name.starts_with("head.");
        let matrix = tensor.shape.len() == 2;
        let want = match (matrix, layer) {
            (false, _) => TensorType::F32,
            (true, true) => TensorType::Q8_0,
            (true, false) => TensorType::F16,
        };
        assert_eq!(tensor.ty, want, "{}", tensor.name);
        n_blocks += usize::from(tensor.ty == TensorType::Q8_0);
    }
    assert_eq!(n_blocks, 4 * 4 + 2 * 4);
    // It is a model like any other.
    Engine::from_gguf(&file, &engine::Options { n_threads: Some(1), ..engine::Options::default() }).unwrap();
    for outtype in Outtype::PLAIN {
        let plain = converted(&dir.path().join("a-checkpoint"), outtype);
        assert_eq!(File::open(&plain).unwrap().get(RECIPE_KEY), None);
        assert_eq!(Outtype::of(&File::open(&plain).unwrap()).unwrap(), Some(outtype));
    }
}

#[test]
fn the_report_says_what_every_tensor_lost() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = checkpoint(dir.path(), Arch::TinyModernbert, Dtype::F32);
    let out = dir.path().join("out.gguf");
    let options = Options { outtype: Outtype::Q8_0Mixed, ..Options::default() };
    let report = convert::convert(&checkpoint, &out, &options).unwrap();
    let (file, exact) = (File::open(&out).unwrap(), File::open(&converted(&checkpoint, Outtype::F32)).unwrap());
    assert_eq!(report.n_bytes, fs::metadata(&out).unwrap().len());
    assert_eq!(report.tensors.len(), file.tensors().len());
    let proof = report.proof.unwrap();
    assert_eq!(proof.n_tensors, file.tensors().len());
    assert!(proof.n_probes > 500, "{proof:?}");
    for ((stored, tensor), exact_tensor) in report.tensors.iter().zip(file.tensors()).zip(exact.tensors()) {
        assert_eq!((&stored.name, &stored.shape, stored.to), (&tensor.name, &tensor.shape, tensor.ty));
        assert_eq!((stored.from, stored.n_bytes), ("F32", tensor.n_bytes));
        let (values, exact) = (tiny::values(&file, tensor), tiny::values(&exact, exact_tensor));
        let errors = || values.iter().zip(&exact).map(|(a, b)| f64::from(*a) - f64::from(*b));
        let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
        let max_abs = errors().fold(0f64, |most, error| most.max(error.abs()));
        let relative = (squares(&mut errors()) / squares(&mut exact.iter().map(|v| f64::from(*v)))).sqrt();
        let Loss { max_abs: said_max, relative: said_relative, n_lost } = stored.error.unwrap();
        assert_eq!(n_lost, 0);
        assert_eq!(said_max, max_abs, "{}", stored.name);
        assert!((said_relative - relative).abs() <= 1e-9 * relative.max(1e-300), "{}", stored.name);
        assert_eq!(max_abs == 0.0, tensor.ty == TensorType::F32, "{}", stored.name);
    }
    // A plan is the same without the errors, and writes nothing.
    let n_files = fs::read_dir(dir.path()).unwrap().count();
    let plan = convert::plan(&checkpoint, Some(&out), &options).unwrap();
    assert_eq!((plan.n_bytes, plan.n_params, &plan.notes), (report.n_bytes, report.n_params, &report.notes));
    assert!(plan.proof.is_none() && plan.tensors.iter().all(|tensor| tensor.error.is_none()));
    assert_eq!(plan.tensors.len(), report.tensors.len());
    let f32s = dir.path().join("a-checkpoint.f32");
    assert_eq!(convert::plan_quantize(&f32s, None, Outtype::Q8_0Mixed).unwrap().n_bytes, report.n_bytes);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), n_files);
    // Unproven on demand.
    let report = convert::convert(&checkpoint, &out, &Options { verify: false, ..options }).unwrap();
    assert!(report.proof.is_none() && report.tensors[0].error.is_none());
}

#[test]
fn what_cannot_be_quantized_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = checkpoint(dir.path(), Arch::TinyMmbert, Dtype::F16);
    let out = dir.path().join("out.gguf");
    let refused =
        |input: &Path, out: &Path| convert::quantize(input, out, Outtype::Q8_0Mixed, true, &mut |_, _| {}).unwrap_err();
    let error = refused(&converted(&checkpoint, Outtype::Q8_0), &out);
    assert!(matches!(error.place(), Some(Place::Tensor(name)) if name == "act_head.2.weight"), "{error}");
    assert!(error.message().contains("is Q8_0 already; quantize the f32 or f16 file"), "{error}");
    let f16 = converted(&checkpoint, Outtype::F16);
    let before = fs::read(&f16).unwrap();
    let error = refused(&f16, &f16);
    assert_eq!((error.kind(), fs::read(&f16).unwrap() == before), (ErrorKind::Usage, true), "{error}");
    // A plan says the same, and what could not be written.
    let planned = |out: &Path| convert::plan_quantize(&f16, Some(out), Outtype::Q8_0Mixed).unwrap_err();
    assert_eq!(planned(&f16).to_string(), error.to_string());
    assert!(planned(dir.path()).message().contains("a directory, name a file"));
    let text = dir.path().join("text");
    fs::write(&text, "{}").unwrap();
    assert!(refused(&text, &out).message().contains("not a GGUF file"));
    let mut other = laya::gguf::Writer::new();
    other.set("general.architecture", "bert");
    fs::write(&text, other.to_bytes(|_, _| Ok(())).unwrap()).unwrap();
    let error = refused(&text, &out);
    assert!(error.to_string().contains("not a laya GGUF: the architecture is \"bert\""), "{error}");
    assert!(!out.exists());
    // A value that becomes infinite counts as lost; the others' loss is their own.
    let f32s = converted(&checkpoint, Outtype::F32);
    let mut large = fs::read(&f32s).unwrap();
    let file = File::from_bytes(large.clone()).unwrap();
    let at = file.tensor_start(file.tensor("scorer.1.weight").unwrap()).unwrap();
    large[at..at + 4].copy_from_slice(&1e30f32.to_le_bytes());
    fs::write(&text, large).unwrap();
    let report = convert::quantize(&text, &out, Outtype::F16, true, &mut |_, _| {}).unwrap();
    let lost = report.tensors.iter().find(|tensor| tensor.name == "scorer.1.weight").unwrap().error.unwrap();
    assert!(lost.n_lost == 1 && lost.max_abs < 1e-3, "{lost:?}");
    assert!(report.notes.iter().any(|note| note.contains("scorer.1.weight: 1 of 4096 values are too large for F16")));
    fs::remove_file(&out).unwrap();
    // A value no block can hold.
    let mut bytes = before;
    let file = File::from_bytes(bytes.clone()).unwrap();
    let at = file.tensor_start(file.tensor("blk.2.ffn_up.weight").unwrap()).unwrap();
    bytes[at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    fs::write(&text, bytes).unwrap();
    let error = refused(&text, &out);
    assert!(matches!(error.place(), Some(Place::Tensor(name)) if name == "blk.2.ffn_up.weight"), "{error}");
    assert_eq!(error.file(), Some(text.as_path()));
    assert!(!out.exists());
}
