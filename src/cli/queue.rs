//! What waits between the thread that reads and the one that answers: in order, and of bounded size.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A queue of things that together weigh at most `max_weight`, or of one thing that is heavier.
///
/// Things weigh from the moment they are admitted, which is before they are made, until the taker comes back for more:
/// what is read ahead and what is being answered count together.
pub(super) fn queue<T>(max_weight: usize) -> (Feed<T>, Take<T>) {
    let state = State {
        waiting: VecDeque::new(),
        n_tokens: 0,
        weight: 0,
        taken_weight: 0,
        full: false,
        fed: false,
        abandoned: false,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), max_weight });
    (Feed(Arc::clone(&shared)), Take(shared))
}

/// The end that puts things in. When it is dropped, nothing more comes.
pub(super) struct Feed<T>(Arc<Shared<T>>);

/// The end that takes things out. When it is dropped, nothing more is wanted.
pub(super) struct Take<T>(Arc<Shared<T>>);

/// Room for a thing of this weight.
pub(super) struct Room(usize);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Something of the state changed.
    changed: Condvar,
    max_weight: usize,
}

struct State<T> {
    waiting: VecDeque<Waiting<T>>,
    /// Tokens of all that waits.
    n_tokens: usize,
    /// Weight of all that was admitted and is not done.
    weight: usize,
    /// The part of it that was taken and is worked on.
    taken_weight: usize,
    /// The feeder waits for room.
    full: bool,
    /// Nothing more comes.
    fed: bool,
    /// Nothing more is wanted.
    abandoned: bool,
}

struct Waiting<T> {
    thing: T,
    weight: usize,
    n_tokens: usize,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and tells the other end.
    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits as long as `wait` says.
    fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, State<T>>,
        wait: impl FnMut(&mut State<T>) -> bool,
    ) -> MutexGuard<'a, State<T>> {
        self.changed.wait_while(state, wait).unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Feed<T> {
    /// Waits for room for a thing that weighs `weight`; `None` when nothing more is wanted.
    pub(super) fn room(&self, weight: usize) -> Option<Room> {
        let fits = |state: &State<T>| state.weight == 0 || state.weight + weight <= self.0.max_weight;
        let mut state = self.0.lock();
        if !fits(&state) {
            state.full = true;
            self.0.changed.notify_all();
            state = self.0.wait_while(state, |state| !state.abandoned && !fits(state));
            state.full = false;
        }
        state.weight += weight;
        (!state.abandoned).then_some(Room(weight))
    }

    /// Puts in a thing of `n_tokens` tokens, for which there was room and which weighs `more` now that it is made.
    pub(super) fn put(&self, thing: T, Room(weight): Room, more: usize, n_tokens: usize) {
        self.0.change(|state| {
            state.waiting.push_back(Waiting { thing, weight: weight + more, n_tokens });
            state.weight += more;
            state.n_tokens += n_tokens;
        });
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.fed = true);
    }
}

impl<T> Take<T> {
    /// Waits until there is something and takes what is there: things of at most `n_tokens` tokens together, or one that
    /// has more. Nothing is taken when nothing more comes. What was taken before is done.
    ///
    /// With `fill` it waits until that many tokens are there, nothing more comes, or there is no room for more: right for
    /// an input that never pauses.
    pub(super) fn take(&self, n_tokens: usize, fill: bool) -> Vec<T> {
        let mut state = self.0.lock();
        state.weight -= state.taken_weight;
        state.taken_weight = 0;
        self.0.changed.notify_all();
        let incomplete =
            |state: &State<T>| state.waiting.is_empty() || (fill && state.n_tokens < n_tokens && !state.full);
        let mut state = self.0.wait_while(state, |state| !state.fed && incomplete(state));
        let (mut taken, mut n_taken) = (Vec::new(), 0);
        while let Some(next) = state.waiting.pop_front() {
            if !taken.is_empty() && n_taken + next.n_tokens > n_tokens {
                state.waiting.push_front(next);
                break;
            }
            n_taken += next.n_tokens;
            state.n_tokens -= next.n_tokens;
            state.taken_weight += next.weight;
            taken.push(next.thing);
        }
        taken
    }
}

impl<T> Drop for Take<T> {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.abandoned = true;
            state.waiting.clear();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// Long enough for any machine: it ends a test that would hang otherwise.
    const PATIENCE: Duration = Duration::from_secs(300);
    /// Long enough to see that something does not happen; a machine too slow for it hides a fault and makes none.
    const MOMENT: Duration = Duration::from_millis(50);

    fn put(feed: &Feed<u32>, thing: u32, weight: usize, n_tokens: usize) {
        let room = feed.room(weight).expect("a taker");
        feed.put(thing, room, 0, n_tokens);
    }

    #[test]
    fn what_waits_is_taken_in_order_up_to_the_tokens() {
        let (feed, take) = queue(100);
        for (thing, n_tokens) in [(0, 5), (1, 0), (2, 5), (3, 1), (4, 30), (5, 0), (6, 0)] {
            put(&feed, thing, 1, n_tokens);
        }
        assert_eq!(take.take(10, false), [0, 1, 2]);
        // One that has more tokens is taken, and alone; what has none adds nothing.
        assert_eq!(take.take(10, false), [3]);
        assert_eq!(take.take(10, false), [4]);
        assert_eq!(take.take(0, false), [5, 6]);
        drop(feed);
        assert!(take.take(10, false).is_empty());
    }

    #[test]
    fn one_thing_is_enough_unless_it_is_to_fill() {
        let (feed, take) = queue(100);
        put(&feed, 0, 1, 1);
        assert_eq!(take.take(10, false), [0]);
        let (send, taken) = mpsc::channel();
        thread::spawn(move || {
            while let things @ [_, ..] = take.take(10, true).as_slice() {
                send.send(things.to_vec()).unwrap();
            }
        });
        put(&feed, 1, 1, 4);
        put(&feed, 2, 1, 4);
        assert!(taken.recv_timeout(MOMENT).is_err(), "8 tokens are not 10");
        put(&feed, 3, 1, 4);
        assert_eq!(taken.recv_timeout(PATIENCE).unwrap(), [1, 2]);
        // The rest comes out when nothing more comes.
        assert!(taken.recv_timeout(MOMENT).is_err(), "4 tokens are not 10");
        drop(feed);
        assert_eq!(taken.recv_timeout(PATIENCE).unwrap(), [3]);
        assert!(taken.recv_timeout(PATIENCE).is_err());
    }

    #[test]
    fn what_waits_and_what_is_worked_on_has_a_largest_weight() {
        let (feed, take) = queue(10);
        let (send, fed) = mpsc::channel();
        thread::spawn(move || {
            for (thing, weight) in [(0, 4), (1, 4), (2, 4), (3, 50), (4, 1)] {
                put(&feed, thing, weight, 1);
                send.send(thing).unwrap();
            }
        });
        assert_eq!([0, 1].map(|_| fed.recv_timeout(PATIENCE).unwrap()), [0, 1]);
        assert!(fed.recv_timeout(MOMENT).is_err(), "4 + 4 + 4 is more than 10");
        // No room for more is as good as full.
        assert_eq!(take.take(1000, true), [0, 1]);
        assert!(fed.recv_timeout(MOMENT).is_err(), "what is worked on weighs");
        assert_eq!(take.take(1000, true), [2]);
        assert_eq!(fed.recv_timeout(PATIENCE).unwrap(), 2);
        // One that is heavier than everything is let in alone.
        assert!(fed.recv_timeout(MOMENT).is_err());
        assert_eq!(take.take(1000, true), [3]);
        assert_eq!(fed.recv_timeout(PATIENCE).unwrap(), 3);
        assert_eq!(take.take(1000, true), [4]);
        assert!(take.take(1000, true).is_empty());
    }

    #[test]
    fn a_thing_may_turn_out_heavier() {
        let (feed, take) = queue(10);
        let room = feed.room(1).unwrap();
        feed.put(0, room, 20, 1);
        let (send, fed) = mpsc::channel();
        thread::spawn(move || {
            put(&feed, 1, 1, 1);
            send.send(()).unwrap();
        });
        assert!(fed.recv_timeout(MOMENT).is_err());
        assert_eq!(take.take(1, false), [0]);
        assert_eq!(take.take(1, false), [1]);
        fed.recv_timeout(PATIENCE).unwrap();
    }

    #[test]
    fn a_taker_that_leaves_ends_the_feeder() {
        let (feed, take) = queue(10);
        put(&feed, 0, 10, 1);
        let feeder = thread::spawn(move || feed.room(1).is_none());
        thread::sleep(MOMENT);
        drop(take);
        assert!(feeder.join().unwrap());
    }
}
