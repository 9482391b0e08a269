//! The ordered object of [`Value`](super::Value).

use super::Value;
use std::hash::{BuildHasher, RandomState};

/// Objects up to this many entries are searched from the front; larger ones get an index.
const LINEAR_ENTRIES: usize = 16;

/// A free slot of the index.
const FREE: u64 = u64::MAX;

/// A JSON object that keeps its keys in the order they were first inserted.
///
/// Inserting a key that is already there replaces its value and keeps its place, as a Python dict does. Two objects
/// are equal when they hold equal entries *in the same order*, because the order is part of the text a model reads.
#[derive(Debug, Clone, Default)]
pub struct Object {
    entries: Vec<(String, Value)>,
    /// Boxed, because a value is as large as its largest kind and few objects have one.
    index: Option<Box<Index>>,
}

/// Open-addressed table of entry numbers. The hash is keyed at random, so no input can be made to collide.
#[derive(Debug, Clone)]
struct Index {
    hasher: RandomState,
    /// `[capacity]`, a power of two at least twice the number of entries; [`FREE`], or the lower half of the key's hash
    /// above an entry number: keys that are not the one looked for are mostly not looked at.
    slots: Vec<u64>,
}

impl Index {
    /// `None` for more entries than a slot can number.
    fn new(entries: &[(String, Value)]) -> Option<Box<Self>> {
        let capacity = entries.len().saturating_mul(4).max(64).next_power_of_two();
        if capacity > u32::MAX as usize {
            return None;
        }
        let mut index = Self { hasher: RandomState::new(), slots: vec![FREE; capacity] };
        for (i, (key, _)) in entries.iter().enumerate() {
            index.add(key, i);
        }
        Some(Box::new(index))
    }

    /// The slots to look at for `key`, in order, and the part of its hash that is in one.
    fn probes(&self, key: &str) -> (impl Iterator<Item = usize> + use<>, u64) {
        let mask = self.slots.len() - 1;
        let hash = self.hasher.hash_one(key);
        // Truncating the hash on a 32-bit target only drops bits the mask would drop.
        let start = (hash >> 32) as usize;
        ((0..=mask).map(move |step| start.wrapping_add(step) & mask), hash << 32)
    }

    fn add(&mut self, key: &str, entry: usize) {
        let (mut probes, hash) = self.probes(key);
        let free = probes.find(|&place| self.slots.get(place) == Some(&FREE));
        if let Some(slot) = free.and_then(|place| self.slots.get_mut(place)) {
            *slot = hash | entry as u64;
        }
    }

    fn find(&self, key: &str, entries: &[(String, Value)]) -> Option<usize> {
        let (probes, hash) = self.probes(key);
        for place in probes {
            let slot = *self.slots.get(place)?;
            let entry = (slot & u64::from(u32::MAX)) as usize;
            if slot == FREE {
                return None;
            }
            if slot & !u64::from(u32::MAX) == hash && entries.get(entry).is_some_and(|(found, _)| found == key) {
                return Some(entry);
            }
        }
        None
    }
}

impl Object {
    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key` to `value` and returns the value it had. A key that is already there keeps its place.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        if let Some(slot) = self.get_mut(&key) {
            return Some(std::mem::replace(slot, value));
        }
        let entry = self.entries.len();
        self.entries.push((key, value));
        match &mut self.index {
            Some(index) if index.slots.len() / 2 > entry => {
                if let Some((key, _)) = self.entries.last() {
                    index.add(key, entry);
                }
            }
            index => *index = if entry >= LINEAR_ENTRIES { Index::new(&self.entries) } else { None },
        }
        None
    }

    /// Removes `key`, keeping the order of the others. Takes time linear in the number of entries.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let (_, value) = self.entries.remove(self.position(key)?);
        self.index = if self.entries.len() > LINEAR_ENTRIES { Index::new(&self.entries) } else { None };
        Some(value)
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.find(key, &self.entries),
            None => self.entries.iter().position(|(k, _)| k == key),
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(self.position(key)?).map(|(_, value)| value)
    }

    /// The value of `key`, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let position = self.position(key)?;
        self.entries.get_mut(position).map(|(_, value)| value)
    }

    /// Whether `key` is there (a `null` value counts).
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    /// The values in key order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut object = Self::new();
        object.extend(entries);
        object
    }
}

impl<K: Into<String>, V: Into<Value>> Extend<(K, V)> for Object {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_key_keeps_its_place_and_takes_the_last_value() {
        for n in [3_i64, 40] {
            let mut object: Object = (0..n).map(|i| (format!("k{i}"), i)).collect();
            assert_eq!(object.insert("k1", -1_i64), Some(Value::from(1_i64)));
            assert_eq!(object.keys().nth(1), Some("k1"));
            assert_eq!(object.get("k1"), Some(&Value::from(-1_i64)));
            assert_eq!(object.len(), n as usize);
        }
    }

    #[test]
    fn large_objects_find_every_key_and_no_other() {
        let mut object = Object::new();
        for i in 0..5000_i64 {
            object.insert(format!("key {i}"), i);
            assert!(object.contains_key(&format!("key {}", i / 2)));
        }
        for i in 0..5000_i64 {
            assert_eq!(object.get(&format!("key {i}")).and_then(Value::as_i64), Some(i));
        }
        assert!(!object.contains_key("key 5000"));
        assert_eq!(object.remove("key 0").and_then(|v| v.as_i64()), Some(0));
        assert_eq!(object.remove("key 0"), None);
        assert_eq!(object.get("key 4999").and_then(Value::as_i64), Some(4999));
        assert_eq!(object.keys().next(), Some("key 1"));
    }

    #[test]
    fn a_value_is_small() {
        // A vocabulary of 256,000 tokens with 580,000 merges is two million values.
        assert_eq!(size_of::<Value>(), 32);
    }

    #[test]
    fn order_is_part_of_equality() {
        let ab: Object = [("a", 1_i64), ("b", 2)].into_iter().collect();
        let ba: Object = [("b", 2_i64), ("a", 1)].into_iter().collect();
        assert_ne!(ab, ba);
        assert_eq!(ab, ab.clone());
    }
}
