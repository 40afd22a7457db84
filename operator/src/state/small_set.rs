//! A set for maps with tens of thousands of sets of one value. Such a set takes no memory of its own, while a `BTreeSet` of one value has
//! room for eleven: more than half a kilobyte of names.

use std::collections::BTreeSet;

/// A set, mostly of one value.
#[derive(Debug, Default)]
pub(super) enum SmallSet<T> {
    #[default]
    Empty,
    One(T),
    Many(BTreeSet<T>),
}

impl<T: Ord> SmallSet<T> {
    pub(super) fn insert(&mut self, value: T) {
        *self = match std::mem::take(self) {
            Self::Empty => Self::One(value),
            Self::One(first) if first == value => Self::One(first),
            Self::One(first) => Self::Many([first, value].into()),
            Self::Many(mut all) => {
                all.insert(value);
                Self::Many(all)
            }
        };
    }

    pub(super) fn remove(&mut self, value: &T) {
        match self {
            Self::Many(all) => {
                all.remove(value);
            }
            Self::One(first) if *first == *value => *self = Self::Empty,
            Self::One(_) | Self::Empty => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(first) => (Some(first), None),
            Self::Many(all) => (None, Some(all)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_each_value_once_until_it_is_removed() {
        let mut set = SmallSet::default();
        let values = |set: &SmallSet<u8>| set.iter().copied().collect::<Vec<_>>();
        assert!(set.is_empty());
        for value in [2, 2, 1, 3, 3] {
            set.insert(value);
        }
        assert_eq!(values(&set), [1, 2, 3]);
        for value in [1, 4, 3] {
            set.remove(&value);
        }
        assert_eq!(values(&set), [2]);
        set.remove(&2);
        assert!(set.is_empty());
        set.insert(5);
        set.remove(&6);
        assert_eq!(values(&set), [5]);
        set.remove(&5);
        assert!(set.is_empty());
    }
}
