//! The rows of a corpus that are traced.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::json::Value;
use crate::request::{QuestionType, Request};

/// A row of tokens, with the question it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedRow {
    /// Id of the item.
    pub item: String,
    /// Id of the question.
    pub question: String,
    /// Its type.
    pub kind: QuestionType,
    /// Token ids, `[n_tokens]`.
    pub ids: Vec<u32>,
    /// Position of every option's marker, `[n_options]`.
    pub markers: Vec<u32>,
}

impl TracedRow {
    /// `item/question`, which its tensors in a reference dump begin with.
    pub fn name(&self) -> String {
        format!("{}/{}", self.item, self.question)
    }
}

/// The rows `engine` makes of the questions of an item.
///
/// # Errors
/// The item is not a request this engine answers.
pub fn rows_of(engine: &Engine, item: &str, body: &Value) -> Result<Vec<TracedRow>> {
    let request = Request::parse(body).map_err(Error::from)?;
    let rows = engine.rows(&request)?.into_iter().zip(&request.questions);
    let row = rows.map(|(row, question)| TracedRow {
        item: item.to_owned(),
        question: question.id.clone(),
        kind: row.kind,
        ids: row.ids,
        markers: row.markers,
    });
    Ok(row.collect())
}

/// `n` of the rows, in their order, spread evenly over their lengths: the shortest and the longest are among them.
pub fn pick(rows: Vec<TracedRow>, n: usize) -> Vec<TracedRow> {
    if rows.len() <= n {
        return rows;
    }
    let mut by_length: Vec<usize> = (0..rows.len()).collect();
    by_length.sort_by_key(|i| (rows[*i].ids.len(), *i));
    // A single one is the longest.
    let steps = n.saturating_sub(1).max(1);
    let mut kept: Vec<usize> =
        (0..n).map(|i| by_length[if n == 1 { rows.len() - 1 } else { i * (rows.len() - 1) / steps }]).collect();
    kept.sort_unstable();
    let mut kept = kept.into_iter().peekable();
    rows.into_iter().enumerate().filter(|(i, _)| kept.next_if_eq(i).is_some()).map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_spread() {
        let row = |n: usize| TracedRow {
            item: n.to_string(),
            question: "q".into(),
            kind: QuestionType::Noul,
            ids: vec![0; n],
            markers: Vec::new(),
        };
        let picked = |n| pick([7, 3, 9, 5, 1].map(row).to_vec(), n).into_iter().map(|row| row.ids.len());
        assert_eq!(picked(0).count(), 0);
        assert_eq!(picked(1).collect::<Vec<_>>(), [9]);
        assert_eq!(picked(2).collect::<Vec<_>>(), [9, 1]);
        assert_eq!(picked(3).collect::<Vec<_>>(), [9, 5, 1]);
        assert_eq!(picked(8).collect::<Vec<_>>(), [7, 3, 9, 5, 1]);
    }
}
