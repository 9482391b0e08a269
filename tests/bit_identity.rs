//! Answers are the same to the bit on every instruction set, with any number of threads, and in any company.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod tiny;

use laya::convert::Outtype;
use laya::engine::Engine;
use laya::kernels::InstructionSet;
use laya::model::{Logits, Row};
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
        for outtype in [Outtype::F32, Outtype::F16] {
            let dir = tempfile::tempdir().unwrap();
            let path = tiny::gguf(family, outtype, dir.path());
            let meaning = tiny::engine_with(&path, 1, InstructionSet::scalar());
            let sequences = rows(&meaning, family);
            // Alone, one after the other, with the scalar kernels: what everything else must give.
            let alone: Vec<_> =
                sequences.iter().map(|s| bits(&meaning.model().forward(&[row(s)]).unwrap()[0])).collect();
            assert!(alone.len() >= 30);
            for set in &sets {
                // The scalar kernels are slow where the processor's baseline has no fused multiply-add: threads once.
                let counts: &[usize] = if set.name() == "scalar" { &[2] } else { &[1, 2, 3, 8] };
                for &n_threads in counts {
                    let engine = tiny::engine_with(&path, n_threads, *set);
                    let what = format!("{family} {} {} {n_threads} threads", outtype.as_str(), set.name());
                    let together: Vec<_> = sequences.iter().map(row).collect();
                    let packed: Vec<_> = engine.model().forward(&together).unwrap().iter().map(bits).collect();
                    assert!(packed == alone, "{what}: together");
                    if set.name() == "scalar" {
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
