//! A generative backend behind an HTTP endpoint as llama.cpp's `llama-server` has it.

use super::judge::check_baseline;
use super::recording::{Mode, Passage, Recording, Step, ids};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::parity::{Endpoint, Reply};

/// Most probable tokens that are asked for: a divergence is judged by where the candidate's token is among them.
const N_PROBS: usize = 10;

/// A server that tokenizes and completes.
#[derive(Debug, Clone)]
pub struct Backend {
    endpoint: Endpoint,
}

/// Tokens that continue a prompt.
struct Completion {
    steps: Vec<Step>,
    model: Option<String>,
}

impl Backend {
    /// The backend at `endpoint`.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        self.endpoint.url()
    }

    /// The tokens of a prompt, with what the model wants at its beginning; text of special tokens is text.
    ///
    /// # Errors
    /// The server cannot be asked, or does not answer as it must; the error names the URL and the field.
    pub fn tokenize(&self, prompt: &str) -> Result<Vec<u32>> {
        const ROUTE: &str = "/tokenize";
        let mut body = Object::new();
        body.insert("content", prompt);
        body.insert("add_special", true);
        body.insert("parse_special", false);
        let reply = self.ask(ROUTE, body)?;
        match ids(reply.get("tokens")) {
            Some(ids) if ids.is_empty() => {
                Err(self.fault(ROUTE, format!("has no tokens for the prompt {prompt:?}; leave it out")))
            }
            Some(ids) => Ok(ids),
            None => Err(self.fault(ROUTE, "answers without tokens, a list of token ids; is it a llama-server?")),
        }
    }

    /// Up to `n_tokens` tokens after `prompt_ids`, each the most probable one.
    ///
    /// # Errors
    /// As [`Backend::tokenize`]; or it chose a token that is not the most probable one.
    fn complete(&self, prompt_ids: &[u32], n_tokens: usize) -> Result<Completion> {
        const ROUTE: &str = "/completion";
        let mut body = Object::new();
        body.insert("prompt", prompt_ids.iter().copied().collect::<Value>());
        body.insert("n_predict", n_tokens);
        body.insert("temperature", 0_i64);
        // Whatever the server was started with: nothing but the logits chooses.
        body.insert("repeat_penalty", 1_i64);
        body.insert("presence_penalty", 0_i64);
        body.insert("frequency_penalty", 0_i64);
        body.insert("dry_multiplier", 0_i64);
        body.insert("n_probs", N_PROBS);
        body.insert("return_tokens", true);
        body.insert("cache_prompt", true);
        body.insert("stream", false);
        let reply = self.ask(ROUTE, body)?;
        let chosen = ids(reply.get("tokens")).filter(|ids| !ids.is_empty()).ok_or_else(|| {
            self.fault(ROUTE, "answers without tokens, the ids it generated; it must know return_tokens (llama-server of 2025 or later)")
        })?;
        let probabilities = match reply.get("completion_probabilities") {
            None => Vec::new(),
            Some(list) => list.as_array().and_then(|list| list.iter().map(probability).collect()).ok_or_else(|| {
                let message = "answers completion_probabilities without id and top_logprobs, a list of id and logprob";
                self.fault(ROUTE, message)
            })?,
        };
        let steps: Vec<_> =
            chosen.iter().zip(aligned(&chosen, &probabilities)).map(|(id, top)| Step { id: *id, top }).collect();
        for (position, step) in steps.iter().enumerate() {
            // The first of equally probable tokens may be listed second.
            let own = step.top.iter().find(|(id, _)| *id == step.id);
            if let Some((best, most)) = step.top.first().filter(|(_, most)| own.is_none_or(|(_, own)| own < most)) {
                let message = format!(
                    "chose token {} at position {position} though {best} is more probable (logprob {most:.3}); it must \
                     generate greedily: no grammar, bias or other sampler may be set",
                    step.id
                );
                return Err(self.fault(ROUTE, message));
            }
        }
        let model = reply.get("model").and_then(Value::as_str).map(str::to_owned);
        Ok(Completion { steps, model })
    }

    /// Continues every prompt greedily. `on_prompt` is called when one is done.
    ///
    /// # Errors
    /// As [`Backend::tokenize`].
    pub fn generate(&self, prompts: &[String], n_tokens: usize, on_prompt: &mut dyn FnMut()) -> Result<Recording> {
        let mut passages = Vec::with_capacity(prompts.len());
        let mut model = None;
        for prompt in prompts {
            let prompt_ids = self.tokenize(prompt)?;
            let completion = self.complete(&prompt_ids, n_tokens)?;
            model = model.or(completion.model);
            passages.push(Passage { prompt: prompt.clone(), prompt_ids, forced: None, steps: completion.steps });
            on_prompt();
        }
        Ok(Recording { mode: Mode::Greedy, server: self.url().to_owned(), model, n_tokens, passages })
    }

    /// Replays the tokens of `baseline`: at each of its positions, the token this backend would choose. `on_prompt` is
    /// called when a prompt is done.
    ///
    /// # Errors
    /// As [`Backend::tokenize`]; or it has another vocabulary, or the baseline is a replay itself.
    pub fn replay(&self, baseline: &Recording, on_prompt: &mut dyn FnMut()) -> Result<Recording> {
        check_baseline(baseline.mode)?;
        let mut passages = Vec::with_capacity(baseline.passages.len());
        let mut model = None;
        for passage in &baseline.passages {
            let forced = passage.ids();
            let mut context = self.same_tokens(passage)?;
            let mut steps = Vec::with_capacity(forced.len());
            for token in &forced {
                let mut completion = self.complete(&context, 1)?;
                model = model.or(completion.model);
                // There is a token: that was checked.
                steps.extend(completion.steps.drain(..1));
                context.push(*token);
            }
            let Passage { prompt, prompt_ids, .. } = passage.clone();
            passages.push(Passage { prompt, prompt_ids, forced: Some(forced), steps });
            on_prompt();
        }
        let n_tokens = baseline.n_tokens;
        Ok(Recording { mode: Mode::Argmax, server: self.url().to_owned(), model, n_tokens, passages })
    }

    /// Continues the prompts of `baseline` greedily, from its token ids.
    ///
    /// # Errors
    /// As [`Backend::replay`].
    pub fn follow(&self, baseline: &Recording, on_prompt: &mut dyn FnMut()) -> Result<Recording> {
        check_baseline(baseline.mode)?;
        baseline.passages.iter().try_for_each(|passage| self.same_tokens(passage).map(drop))?;
        let prompts: Vec<_> = baseline.passages.iter().map(|passage| passage.prompt.clone()).collect();
        self.generate(&prompts, baseline.n_tokens, on_prompt)
    }

    /// The tokens of the prompt of `passage`.
    ///
    /// # Errors
    /// They are others here.
    fn same_tokens(&self, passage: &Passage) -> Result<Vec<u32>> {
        let own = self.tokenize(&passage.prompt)?;
        if own == passage.prompt_ids {
            return Ok(own);
        }
        let at = own.iter().zip(&passage.prompt_ids).take_while(|(a, b)| a == b).count();
        let message = format!(
            "{}/tokenize: makes other tokens of the prompt {:?} than the baseline, from token {at} on; ids of different \
             vocabularies cannot be compared",
            self.url(),
            passage.prompt
        );
        Err(Error::new(ErrorKind::Mismatch, message))
    }

    /// What is answered to `body`, with a status of success.
    fn ask(&self, route: &str, body: Object) -> Result<Value> {
        let Reply { status, body } = self.endpoint.post(route, &Value::Object(body))?;
        if status == 200 {
            return Ok(body);
        }
        let error = body.get("error").unwrap_or(&body);
        let said = error.get("message").and_then(Value::as_str).or(error.as_str());
        let said = said.map_or_else(|| "no message".to_owned(), |text| text.escape_debug().to_string());
        let what = match status {
            503 => "is not ready yet",
            404 | 405 | 501 => "does not have this route; is it a llama-server?",
            _ => "refuses or fails",
        };
        Err(self.fault(route, format!("{what} (status {status}: {said})")))
    }

    fn fault(&self, route: &str, message: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Endpoint, format!("{}{route}: {message}", self.url()))
    }
}

/// A token and the most probable ones there, most probable first.
fn probability(entry: &Value) -> Option<(u32, Vec<(u32, f64)>)> {
    let id = |value: &Value| u32::try_from(value.get("id")?.as_u64()?).ok();
    let pair = |value: &Value| Some((id(value)?, value.get("logprob")?.as_f64()?));
    let mut top: Vec<_> = entry.get("top_logprobs")?.as_array()?.iter().map(pair).collect::<Option<_>>()?;
    top.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some((id(entry)?, top))
}

/// The probabilities at each of `chosen`. A server leaves out those of tokens that end inside a character, so there may be
/// fewer; where it is not certain whose they are, there are none.
fn aligned(chosen: &[u32], probabilities: &[(u32, Vec<(u32, f64)>)]) -> Vec<Vec<(u32, f64)>> {
    // Each as early as it can be, and each as late.
    let mut early = vec![None; chosen.len()];
    let mut next = 0;
    for (place, id) in early.iter_mut().zip(chosen) {
        if probabilities.get(next).is_some_and(|(own, _)| own == id) {
            *place = Some(next);
            next += 1;
        }
    }
    let mut late = vec![None; chosen.len()];
    let mut rest = probabilities.len();
    for (place, id) in late.iter_mut().zip(chosen).rev() {
        if rest > 0 && probabilities[rest - 1].0 == *id {
            rest -= 1;
            *place = Some(rest);
        }
    }
    // They are of other tokens altogether.
    if next < probabilities.len() || rest > 0 {
        return vec![Vec::new(); chosen.len()];
    }
    let certain = early.into_iter().zip(late).map(|(early, late)| early.filter(|_| early == late));
    certain.map(|found| found.map_or_else(Vec::new, |i| probabilities[i].1.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_find_their_tokens() {
        let of = |ids: &[u32]| -> Vec<_> { ids.iter().map(|id| (*id, vec![(*id, -1.0)])).collect() };
        let found =
            |chosen: &[u32], ids: &[u32]| -> Vec<usize> { aligned(chosen, &of(ids)).iter().map(Vec::len).collect() };
        assert_eq!(found(&[5, 6, 7], &[5, 6, 7]), [1, 1, 1]);
        // Left out inside a character.
        assert_eq!(found(&[5, 6, 7], &[5, 7]), [1, 0, 1]);
        assert_eq!(found(&[5, 6, 7], &[]), [0, 0, 0]);
        // Which of the two it belongs to, nobody can tell.
        assert_eq!(found(&[5, 5, 7], &[5, 7]), [0, 0, 1]);
        assert_eq!(found(&[5, 6, 7], &[8]), [0, 0, 0]);
        assert_eq!(found(&[5, 6], &[5, 6, 7]), [0, 0]);
    }
}
