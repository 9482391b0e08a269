//! Everything loaded is used: changing any tensor moves a logit, and removing any is an error that names it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod tiny;

use laya::convert::Outtype;
use laya::engine::{Engine, Options};
use laya::error::Place;
use laya::gguf::File;
use laya::request::Request;

fn requests(family: &str) -> Vec<Request> {
    let items = tiny::items(family);
    items.iter().filter_map(|item| Request::parse(item.get("body").unwrap()).ok()).take(12).collect()
}

/// Raw logits and act logits of every question.
fn logits(engine: &Engine, requests: &[Request]) -> (Vec<f32>, Vec<f32>) {
    let responses: Vec<_> = requests.iter().map(|request| engine.answer(request).unwrap()).collect();
    let questions = || responses.iter().flat_map(|response| &response.questions);
    (
        questions().flat_map(|q| q.logits.options.clone()).collect(),
        questions().flat_map(|q| q.logits.act.clone()).collect(),
    )
}

fn open(file: &File) -> laya::Result<Engine> {
    Engine::from_gguf(file, &Options { n_threads: Some(1), ..Options::default() })
}

#[test]
fn changing_any_tensor_moves_a_logit_and_removing_any_names_it() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(&tiny::gguf(family, Outtype::F32, dir.path())).unwrap();
        let requests = requests(family);
        let (options, act) = logits(&open(&file).unwrap(), &requests);
        let names: Vec<String> = file.tensors().iter().map(|tensor| tensor.name.clone()).collect();
        for name in &names {
            // One value in sixteen, so that a change cannot cancel in a norm; noul, choice and score rows all differ.
            let changed = tiny::rewritten(&file, |tensor, bytes| {
                if tensor.name == *name {
                    for value in bytes.as_chunks_mut::<4>().0.iter_mut().step_by(16) {
                        *value = (f32::from_le_bytes(*value) * 1.5 + 0.25).to_le_bytes();
                    }
                }
                true
            });
            let (new_options, new_act) = logits(&open(&changed).unwrap(), &requests);
            if name.starts_with("act_head") {
                assert_eq!(new_options, options, "{name} has no part in the options");
                assert_ne!(new_act, act, "{family}: {name} moves no act logit");
            } else {
                assert_ne!(new_options, options, "{family}: {name} moves no logit");
            }

            let without = tiny::rewritten(&file, |tensor, _| tensor.name != *name);
            let error = open(&without).expect_err(name);
            let missing = match error.place() {
                Some(Place::Tensor(tensor)) => tensor.clone(),
                place => panic!("{family}: without {name}: {place:?}: {error}"),
            };
            assert_eq!(missing, *name);
        }
        println!("{family}: {} tensors, each changed and each removed", names.len());
    }
}

#[test]
fn a_tensor_nothing_reads_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = File::open(&tiny::gguf("tiny-mmbert", Outtype::F32, dir.path())).unwrap();
    let mut writer = laya::gguf::Writer::new();
    for (key, value) in file.keys() {
        writer.set(key, value.clone());
    }
    for tensor in file.tensors() {
        writer.add_tensor(tensor.name.clone(), &tensor.shape, tensor.ty).unwrap();
    }
    writer.add_tensor("blk.0.attn_norm.weight", &[64], laya::gguf::TensorType::F32).unwrap();
    let bytes = writer
        .to_bytes(|tensor, out| {
            let known = file.tensor(&tensor.name).map(|tensor| file.tensor_data(tensor).to_vec());
            out.write_all(&known.unwrap_or_else(|| vec![0; 256])).unwrap();
            Ok(())
        })
        .unwrap();
    let error = open(&File::from_bytes(bytes).unwrap()).unwrap_err().to_string();
    assert!(error.contains("blk.0.attn_norm.weight"), "{error}");
}
