//! The comparison layer by layer: against the published package's states, against itself, and what it must notice.

use crate::{dump, tiny};
use std::path::{Path, PathBuf};

use laya::ErrorKind;
use laya::convert::Outtype;
use laya::engine::{Engine, Plan};
use laya::kernels::InstructionSet;
use laya::model::Stage;
use laya::parity::layers::{
    Baseline, Comparison, Dump, Mutation, Node, Outcome, Rule, Side, TracedRow, compare, pick, rows_of,
};

use crate::dump::{Tensors, floats, integers, write};

/// The tiny checkpoints have their massive activation in layer 2.
const RULE: Rule = Rule { absolute_until: 1, ..Rule::DEFAULT };

/// The golden's hidden states and logits as a dump, and the rows of it that `engine` makes itself.
fn golden(family: &str, engine: &Engine) -> (Tensors, Vec<TracedRow>) {
    let (tensors, items) = dump::golden(family);
    let mut rows = Vec::new();
    for item in items {
        // One of them has labels that are refused here alone.
        let found = rows_of(engine, &item.id, &item.body).unwrap_or_default();
        rows.extend(found.into_iter().filter(|row| row.question == item.question));
    }
    (tensors, rows)
}

/// The engine of a family in the type that keeps its checkpoint's values.
fn engine_of(family: &str, dir: &Path) -> Engine {
    let outtype = if family == "tiny-mmbert" { Outtype::F32 } else { Outtype::F16 };
    tiny::engine(&tiny::gguf(family, outtype, dir))
}

fn side(engine: &Engine) -> Side<'_> {
    Side { engine, plan: Plan::Packed }
}

/// The packed plan over `rows` against `base`.
fn compared(base: Baseline<'_>, engine: &Engine, rows: &[TracedRow], mutations: &[Mutation]) -> Vec<Comparison> {
    compare(base, side(engine), rows, &RULE, mutations, &mut || ()).unwrap()
}

/// Whether every mistake fails; the smallest factor by which one does.
fn smallest(family: &str, against: &str, controls: &[Comparison]) -> f64 {
    assert_eq!(controls.len(), 10);
    let mut smallest = f64::INFINITY;
    for control in controls {
        let (name, first, most) = (control.mutation.unwrap().name, control.first(), control.most().unwrap());
        assert_eq!(control.outcome(), Outcome::Fails, "{family} {name}");
        let first = first.unwrap();
        println!(
            "{family} against {against}: {name}: first {} {:.1}, most {} {:.1}, logits {:.1}",
            first.node.name(),
            first.factor,
            most.node.name(),
            most.factor,
            control.factor(Node::Logits).unwrap()
        );
        smallest = smallest.min(most.factor);
    }
    smallest
}

#[test]
fn the_published_packages_states_pass_and_every_mistake_fails() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine_of(family, dir.path());
        let (tensors, rows) = golden(family, &engine);
        let path = dir.path().join("golden.safetensors");
        write(&tensors, &path);
        let dump = Dump::open(&path).unwrap();
        assert!(rows.len() >= 55 && rows.iter().all(|row| dump.holds(row)), "{}", rows.len());
        let mut n_done = 0;
        let mutations = Mutation::all();
        let found =
            compare(Baseline::Dump(&dump), side(&engine), &rows, &RULE, &mutations, &mut || n_done += 1).unwrap();
        assert_eq!(n_done, rows.len());
        let (faithful, controls) = found.split_first().unwrap();
        assert_eq!(faithful.outcome(), Outcome::Passes, "{:?}", faithful.first());
        assert_eq!(faithful.nodes.len(), engine.config().n_layer + engine.config().n_head_layer + 5);
        // It is another program: not one node is equal to the last bit, and none is far.
        assert!(faithful.nodes.iter().all(|node| node.n_differ > 0 && node.factor > 0.0));
        let smallest = smallest(family, "the published package", controls);
        println!("{family}: faithful {:.3}, smallest {smallest:.1}", faithful.most().unwrap().factor);
        assert!(smallest > 10.0, "{family}: {smallest}");
        // Where each mistake shows first.
        let first = |name: &str| {
            let control = controls.iter().find(|control| control.mutation.unwrap().name == name).unwrap();
            control.first().unwrap().node.name()
        };
        assert_eq!([first("all-global"), first("window+1"), first("window-1")], ["layer_01", "layer_01", "layer_01"]);
        assert_eq!([first("all-local"), first("attend-padding")], ["layer_00", "layer_00"]);
        assert_eq!([first("no-type-embedding"), first("no-head-out-proj")], ["type_emb", "head_00"]);
    }
}

#[test]
fn every_mistake_fails_against_the_engine_itself() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine_of(family, dir.path());
        let (_, rows) = golden(family, &engine);
        let rows = pick(rows, 6);
        let base = Baseline::Engine(side(&engine));
        let found = compare(base, side(&engine), &rows, &RULE, &Mutation::all(), &mut || ()).unwrap();
        assert!(found[0].nodes.iter().all(|node| node.n_differ == 0 && node.factor == 0.0 && node.worst.is_none()));
        let smallest = smallest(family, "itself", &found[1..]);
        assert!(smallest > 10.0, "{family}: {smallest}");
    }
}

#[test]
fn short_rows_do_not_exercise_the_window() {
    for (family, has_one_base) in [("tiny-mmbert", true), ("tiny-modernbert", false)] {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine_of(family, dir.path());
        let config = engine.config();
        assert_eq!(config.rope_base_global == config.rope_base_local, has_one_base);
        let radius = config.window / 2;
        // The shortest row there is, cut to fewer tokens than a local layer sees to one side.
        let (_, rows) = golden(family, &engine);
        let longest = pick(rows.clone(), 1).remove(0);
        let mut row = pick(rows, 2).into_iter().min_by_key(|row| row.ids.len()).unwrap();
        row.ids.truncate(radius);
        row.markers = vec![1];
        let rows = [row];
        let found = compared(Baseline::Engine(side(&engine)), &engine, &rows, &Mutation::all());
        for control in &found[1..] {
            let mutation = control.mutation.unwrap();
            // A layer of the other kind has its rotary base as well, where there are two.
            let is_idle = match mutation.name {
                "window-1" | "window+1" => true,
                "all-global" | "all-local" => has_one_base,
                _ => false,
            };
            let expected = if is_idle { Outcome::NotExercised } else { Outcome::Fails };
            assert_eq!(control.outcome(), expected, "{family} {}", mutation.name);
            if is_idle {
                let advice = mutation.advice(config, &rows);
                let needed = radius + if mutation.name == "window-1" { 1 } else { 2 };
                assert!(advice.contains(&format!("at least {needed} tokens")), "{}: {advice}", mutation.name);
                // That many are enough, and one less is not.
                let mut row = TracedRow { markers: vec![1], ..longest.clone() };
                assert!(row.ids.len() >= needed);
                for (n_tokens, acts) in [(needed, true), (needed - 1, false)] {
                    row.ids.truncate(n_tokens);
                    let rows = [row.clone()];
                    let found = compared(Baseline::Engine(side(&engine)), &engine, &rows, &[mutation]);
                    assert_eq!(found[1].acts, acts, "{} {n_tokens}", mutation.name);
                }
            }
        }
    }
}

#[test]
fn a_mistake_proves_nothing_where_the_candidate_is_past_tolerance_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_of("tiny-mmbert", dir.path());
    let q8_0 = tiny::engine(&tiny::gguf("tiny-mmbert", Outtype::Q8_0Mixed, dir.path()));
    let (_, rows) = golden("tiny-mmbert", &engine);
    let rows = pick(rows, 3);
    let found = compared(Baseline::Engine(side(&engine)), &q8_0, &rows, &Mutation::all());
    assert_eq!(found[0].outcome(), Outcome::Fails);
    for control in &found[1..] {
        assert!(control.first().is_some() && control.acts);
        assert_eq!(control.outcome(), Outcome::NotJudged);
    }
}

#[test]
fn instruction_sets_threads_and_plans_are_equal_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = tiny::gguf("tiny-modernbert", Outtype::F16, dir.path());
    let scalar = tiny::engine_with(&path, 1, InstructionSet::named("scalar").unwrap());
    let mut rows = Vec::new();
    for item in tiny::items("tiny-modernbert") {
        let id = item.get("id").unwrap().as_str().unwrap();
        rows.extend(rows_of(&scalar, id, item.get("body").unwrap()).unwrap_or_default());
    }
    // Items with several questions, whose rows share a pass when packed, among them.
    let many = rows.chunk_by(|a, b| a.item == b.item).max_by_key(|item| item.len()).unwrap().to_vec();
    assert!(many.len() > 2);
    let rows = [pick(rows, 3), many].concat();
    for isa in InstructionSet::available() {
        for (n_threads, plan) in [(1, Plan::Packed), (2, Plan::Sequential)] {
            let other = tiny::engine_with(&path, n_threads, isa);
            let base = Baseline::Engine(Side { engine: &scalar, plan: Plan::Sequential });
            let found = compare(base, Side { engine: &other, plan }, &rows, &RULE, &[], &mut || ()).unwrap();
            assert!(found[0].nodes.iter().all(|node| node.n_differ == 0), "{} {n_threads}", isa.name());
            println!("ran {}", isa.name());
        }
    }
}

#[test]
fn another_model_is_refused_and_another_type_of_weights_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let f32 = engine_of("tiny-mmbert", dir.path());
    let other = engine_of("tiny-modernbert", dir.path());
    let q8_0 = tiny::engine(&tiny::gguf("tiny-mmbert", Outtype::Q8_0Mixed, dir.path()));
    let (_, rows) = golden("tiny-mmbert", &f32);
    let rows = pick(rows, 3);
    let error = compare(Baseline::Engine(side(&f32)), side(&other), &rows, &RULE, &[], &mut || ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains("the two models have different"), "{error}");
    let found = compare(Baseline::Engine(side(&f32)), side(&q8_0), &rows, &RULE, &[], &mut || ()).unwrap();
    assert_eq!(found[0].outcome(), Outcome::Fails);
}

/// One row of the golden as a dump, changed by `change`.
fn changed(dir: &Path, engine: &Engine, change: impl FnOnce(&mut Tensors, &str)) -> (PathBuf, TracedRow) {
    let (mut tensors, rows) = golden("tiny-mmbert", engine);
    let row = pick(rows, 3).remove(1);
    tensors.retain(|name, _| name.starts_with(&row.name()));
    change(&mut tensors, &row.name());
    let path = dir.join("changed.safetensors");
    write(&tensors, &path);
    (path, row)
}

#[test]
fn one_wrong_number_is_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_of("tiny-mmbert", dir.path());
    let width = engine.config().n_embd;
    for (part, node, position) in [
        ("embeddings", Node::State(Stage::Embedding), 0),
        ("layer_03", Node::State(Stage::EncoderLayer(3)), 5),
        ("final_norm", Node::State(Stage::FinalNorm), 2),
        ("head_01", Node::State(Stage::HeadLayer(1)), 7),
        ("logits", Node::Logits, 1),
        ("act_logits", Node::ActLogits, 0),
    ] {
        let (path, row) = changed(dir.path(), &engine, |tensors, name| {
            let (_, shape, bytes) = tensors.get_mut(&format!("{name}/{part}")).unwrap();
            let start = if shape.len() == 2 { position * width + 3 } else { position } * 4;
            let value: &mut [u8; 4] = (&mut bytes[start..start + 4]).try_into().unwrap();
            *value = (f32::from_le_bytes(*value) + 2.0).to_le_bytes();
        });
        let dump = Dump::open(&path).unwrap();
        let found = compare(Baseline::Dump(&dump), side(&engine), &[row], &RULE, &[], &mut || ()).unwrap();
        let failing: Vec<_> = found[0].nodes.iter().filter(|node| !node.passes()).collect();
        assert_eq!(failing.len(), 1, "{part}: {failing:?}");
        assert_eq!((failing[0].node, failing[0].worst.unwrap().position), (node, position));
    }
}

#[test]
fn bad_dumps_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_of("tiny-mmbert", dir.path());
    let refused = |part: &str, text: &str, change: &dyn Fn(&mut Tensors, &str)| {
        let (path, row) = changed(dir.path(), &engine, change);
        let dump = Dump::open(&path).unwrap();
        let name = row.name();
        let error = compare(Baseline::Dump(&dump), side(&engine), &[row], &RULE, &[], &mut || ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        let message = error.to_string();
        assert!(message.contains(&format!("changed.safetensors: tensor {name}/{part}: ")), "{message}");
        assert!(message.contains(text), "{message:?} does not say {text:?}");
    };
    let remove = |part: &'static str| {
        move |tensors: &mut Tensors, name: &str| {
            tensors.remove(&format!("{name}/{part}")).unwrap();
        }
    };
    for part in ["ids", "markers", "embeddings", "layer_04", "type_emb", "head_01", "logits", "act_logits"] {
        refused(part, "is missing; make the dump again", &remove(part));
    }
    let set = |part: &'static str, tensor: (&'static str, Vec<usize>, Vec<u8>)| {
        move |tensors: &mut Tensors, name: &str| {
            tensors.insert(format!("{name}/{part}"), tensor.clone());
        }
    };
    refused("layer_02", "this model and row need F32 [", &set("layer_02", ("F32", vec![1, 2], floats(&[0.0; 2]))));
    refused("layer_02", "is F16 [4]", &set("layer_02", ("F16", vec![4], vec![0; 8])));
    refused("logits", "is F32 [1]", &set("logits", ("F32", vec![1], floats(&[0.0]))));
    refused("ids", "is another row: position 0 has 7, this", &set("ids", ("I64", vec![1], integers(&[7]))));
    refused("ids", "position 0 has nothing", &set("ids", ("I32", vec![0], Vec::new())));
    refused("ids", "it must be a list of I64 or I32", &set("ids", ("F32", vec![1], vec![0; 4])));
    refused("ids", "it must be a list of I64 or I32", &set("ids", ("I64", vec![1, 1], vec![0; 8])));
    refused("ids", "a negative number", &set("ids", ("I64", vec![1], (-1_i64).to_le_bytes().to_vec())));
    refused("markers", "is another row", &set("markers", ("I64", vec![1], integers(&[0]))));
    refused("layer_05", "is not a node of this model", &set("layer_05", ("F32", vec![1], floats(&[0.0]))));
    refused("logits", "holds NaN; a reference is finite", &|tensors, name| {
        let (_, _, bytes) = tensors.get_mut(&format!("{name}/logits")).unwrap();
        bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    // Another question of the item, whose id goes on after a stroke, is another row.
    let (path, row) = changed(dir.path(), &engine, |tensors, name| {
        tensors.insert(format!("{name}/b/layer_99"), ("F32", vec![1], floats(&[0.0])));
    });
    let dump = Dump::open(&path).unwrap();
    assert_eq!(compared(Baseline::Dump(&dump), &engine, &[row], &[])[0].outcome(), Outcome::Passes);
    // A file that is no dump at all.
    let path = dir.path().join("no.safetensors");
    std::fs::write(&path, b"{}").unwrap();
    assert!(Dump::open(&path).unwrap_err().to_string().contains("not a safetensors file"));
    // The row of nobody.
    let (path, mut row) = changed(dir.path(), &engine, |_, _| ());
    let dump = Dump::open(&path).unwrap();
    assert!(dump.holds(&row) && dump.rows().eq([row.name()]));
    row.question.push('x');
    assert!(!dump.holds(&row));
}
