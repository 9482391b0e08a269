//! Q8_0: which tensors have it, how close its values are, and what it refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod tiny;

use laya::convert::synth::{self, Arch, Dtype};
use laya::convert::{Options, Outtype, convert};
use laya::error::{ErrorKind, Place};
use laya::gguf::{File, TensorType};

#[test]
fn matrices_of_whole_blocks_have_it() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let [exact, file] =
            [Outtype::F32, Outtype::Q8_0].map(|outtype| File::open(&tiny::gguf(family, outtype, dir.path())).unwrap());
        assert_eq!(file.require_u32("general.file_type").unwrap(), 7);
        let mut n = [0; 3];
        for (tensor, exact_tensor) in file.tensors().iter().zip(exact.tensors()) {
            assert_eq!((&tensor.name, &tensor.shape), (&exact_tensor.name, &exact_tensor.shape));
            let matrix = tensor.shape.len() == 2;
            let want = match matrix && tensor.name.ends_with(".weight") {
                false => TensorType::F32,
                true if tensor.shape[0] % 32 == 0 => TensorType::Q8_0,
                true => TensorType::F16,
            };
            assert_eq!(tensor.ty, want, "{}", tensor.name);
            n[match tensor.ty {
                TensorType::F32 => 0,
                TensorType::F16 => 1,
                _ => 2,
            }] += 1;

            let (values, exact) = (tiny::values(&file, tensor), tiny::values(&exact, exact_tensor));
            for (values, exact) in values.chunks(32).zip(exact.chunks(32)) {
                let most = exact.iter().fold(0f32, |most, value| most.max(value.abs()));
                // Half a step of the scale, and 127 times what rounding the scale to F16 may add.
                let bound = match tensor.ty {
                    TensorType::F32 => 0.0,
                    TensorType::F16 => most / 2048.0,
                    _ => most / 127.0 * 0.5001 + most / 2048.0,
                };
                for (value, exact) in values.iter().zip(exact) {
                    assert!((value - exact).abs() <= bound, "{}: {value} for {exact}", tensor.name);
                }
            }
        }
        // The act head takes four more inputs than whole blocks.
        assert!(n[0] > 0 && n[1] > 0 && n[2] > 0, "{family}: {n:?}");
    }
}

#[test]
fn values_it_cannot_hold_are_refused_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("checkpoint");
    let options = synth::Options { dtype: Dtype::F32, ..synth::Options::new(Arch::TinyMmbert) };
    synth::write_checkpoint(&dir, &options, &mut |_, _| {}).unwrap();
    let weights = dir.join("model.safetensors");
    let original = std::fs::read(&weights).unwrap();
    let n_header = u64::from_le_bytes(original[..8].try_into().unwrap()) as usize;
    let header = laya::json::parse(&original[8..8 + n_header]).unwrap();
    let out = folder.path().join("model.gguf");
    let attempt = |tensor: &str, value: f32, outtype| {
        let offsets = header.get(tensor).unwrap().get("data_offsets").unwrap().as_array().unwrap();
        let at = 8 + n_header + offsets[0].as_u64().unwrap() as usize + 4 * 40;
        let mut bytes = original.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        std::fs::write(&weights, bytes).unwrap();
        convert(&dir, &out, &Options { outtype, ..Options::default() })
    };
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = attempt("encoder.layers.1.mlp.Wi.weight", value, Outtype::Q8_0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Checkpoint);
        assert!(
            matches!(error.place(), Some(Place::Tensor(name)) if name == "encoder.layers.1.mlp.Wi.weight"),
            "{error}"
        );
        let message = error.to_string();
        assert!(message.contains("1 of 12288 values are infinite or not a number"), "{message}");
        assert!(message.contains("store it as f16"), "{message}");
        assert_eq!(error.file(), Some(weights.as_path()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a file is left");
    }
    // A vector is F32 and holds them; a finite value too large for the scale is written as the field does.
    let note = "tensor blk.1.ffn_up.weight: 1 of 12288 values are too large for Q8_0 and make their blocks infinite; \
                store it as f32";
    assert!(attempt("encoder.final_norm.weight", f32::NAN, Outtype::Q8_0).is_ok());
    let report = attempt("encoder.layers.1.mlp.Wi.weight", 1e9, Outtype::Q8_0).unwrap();
    assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
    assert!(attempt("encoder.layers.1.mlp.Wi.weight", f32::NAN, Outtype::F16).is_ok());
}
