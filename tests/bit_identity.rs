//! Answers are the same to the bit on every instruction set, with any number of threads, and in any company.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod tiny;

use laya::convert::Outtype;
use laya::engine::{Engine, Options};
use laya::gguf::File;
use laya::kernels::InstructionSet;
use laya::model::{Control, Logits, Row, Stage};
use laya::request::Request;
use laya::sequence::Sequence;

/// One in three rows of the golden items: the scalar kernels, slow where a multiply-add is software, see them all.
fn rows(engine: &Engine, family: &str) -> Vec<Sequence> {
    let items = tiny::items(family);
    let requests = items.iter().filter_map(|item| Request::parse(item.get("body").unwrap()).ok());
    requests.filter_map(|request| engine.rows(&request).ok()).flatten().step_by(3).collect()
}

fn row(sequence: &Sequence) -> Row<'_> {
    Row { ids: &sequence.ids, markers: &sequence.markers, kind: sequence.kind.index() }
}

fn bits(logits: &Logits) -> Vec<u32> {
    logits.options.iter().chain(&logits.act).map(|x| x.to_bits()).collect()
}

#[test]
fn instruction_sets_threads_and_company_move_no_bit() {
    let sets: Vec<_> = InstructionSet::available();
    let names: Vec<_> = sets.iter().map(|set| set.name()).collect();
    println!("instruction sets that run here: {names:?} of {:?}", InstructionSet::NAMES);
    for family in tiny::FAMILIES {
        for outtype in Outtype::ALL {
            let dir = tempfile::tempdir().unwrap();
            let path = tiny::gguf(family, outtype, dir.path());
            let meaning = tiny::engine_with(&path, 1, InstructionSet::scalar());
            let sequences = rows(&meaning, family);
            // Alone, one after the other, with the scalar kernels: what everything else must give.
            let alone: Vec<_> =
                sequences.iter().map(|s| bits(&meaning.model().forward(&[row(s)]).unwrap()[0])).collect();
            assert!(alone.len() >= 30);
            for set in &sets {
                // Slow where a multiply-add is software: threads once, with one way of storing the weights.
                let counts: &[usize] = match set.is_emulated() {
                    true if outtype == Outtype::F16 => &[2],
                    true => &[],
                    false => &[1, 2, 3, 8],
                };
                for &n_threads in counts {
                    let engine = tiny::engine_with(&path, n_threads, *set);
                    let what = format!("{family} {} {} {n_threads} threads", outtype.as_str(), set.name());
                    let together: Vec<_> = sequences.iter().map(row).collect();
                    let packed: Vec<_> = engine.model().forward(&together).unwrap().iter().map(bits).collect();
                    assert!(packed == alone, "{what}: together");
                    if set.is_emulated() {
                        continue;
                    }
                    let backwards: Vec<_> = sequences.iter().rev().map(row).collect();
                    let mut packed: Vec<_> = engine.model().forward(&backwards).unwrap().iter().map(bits).collect();
                    packed.reverse();
                    assert!(packed == alone, "{what}: in reverse order");
                    let single = sequences.iter().map(|s| bits(&engine.model().forward(&[row(s)]).unwrap()[0]));
                    assert!(single.eq(alone.iter().cloned()), "{what}: alone");
                }
            }
            println!("{family} {}: {} rows, same bits", outtype.as_str(), alone.len());
        }
    }
}

#[test]
fn the_rows_that_are_read_have_the_bits_of_every_row() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let engine = tiny::engine(&tiny::gguf(family, Outtype::F16, dir.path()));
        let sequences = rows(&engine, family);
        let together: Vec<_> = sequences.iter().map(row).collect();
        // A trace of the hidden states asks for every row of the last head layer, a pass without one for those read.
        let mut every: Vec<(Stage, Vec<f32>)> = Vec::new();
        let all = engine.model().forward_traced(&together, Control::default(), &mut every).unwrap();
        let read = engine.model().forward(&together).unwrap();
        assert_eq!(all.iter().map(bits).collect::<Vec<_>>(), read.iter().map(bits).collect::<Vec<_>>(), "{family}");
        let last = Stage::HeadLayer(engine.config().n_head_layer - 1);
        let (_, hidden) = every.iter().find(|(stage, _)| *stage == last).unwrap();
        let n_read: usize = sequences.iter().map(|s| 1 + s.markers.len()).sum();
        println!("{family}: {} rows of the last head layer, {n_read} read", hidden.len() / engine.config().n_embd);
        assert!(hidden.len() / engine.config().n_embd > n_read);
    }
}

#[test]
fn long_rows_have_the_bits_of_the_scalar_kernels() {
    // Longer than a block of rows of a product and than a block of keys of attention, in the middle of other rows.
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let path = tiny::gguf(family, Outtype::F16, dir.path());
        let ids = |n: u32, seed: u32| -> Vec<u32> { (0..n).map(|i| (i * 7 + seed) % 200).collect() };
        let (short, long) = (ids(9, 1), ids(1301, 2));
        let of = |ids| Row { ids, markers: &[1, 3, 5], kind: 1 };
        let meaning = tiny::engine_with(&path, 2, InstructionSet::scalar());
        let alone = meaning.model().forward(&[of(&long)]).unwrap();
        for set in InstructionSet::available() {
            let engine = tiny::engine_with(&path, 2, set);
            let together = engine.model().forward(&[of(&short), of(&long), of(&short)]).unwrap();
            assert_eq!(bits(&together[1]), bits(&alone[0]), "{family} {}", set.name());
        }
    }
}

#[test]
fn how_a_value_is_stored_moves_no_bit() {
    for family in tiny::FAMILIES {
        for outtype in [Outtype::F16, Outtype::Q8_0] {
            let dir = tempfile::tempdir().unwrap();
            let path = tiny::gguf(family, outtype, dir.path());
            let stored = tiny::engine(&path);
            let widened = tiny::widened(&File::open(&path).unwrap());
            let widened = Engine::from_gguf(&widened, &Options { n_threads: Some(1), ..Options::default() }).unwrap();
            let sequences = rows(&stored, family);
            let together: Vec<_> = sequences.iter().map(row).collect();
            let answers =
                |engine: &Engine| -> Vec<_> { engine.model().forward(&together).unwrap().iter().map(bits).collect() };
            assert!(sequences.len() >= 30);
            assert!(answers(&stored) == answers(&widened), "{family} {}", outtype.as_str());
        }
    }
}
