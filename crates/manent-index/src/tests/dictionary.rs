//! Words: each is found, none that is not there is, and those that begin alike are all found.

use std::collections::BTreeMap;

use manent_sim::Rng;

use super::in_memory;
use crate::segment::dictionary::{Dictionary, DictionaryWriter, TermEntry};

/// Words with what is to be kept of each, and the dictionary that keeps it.
fn made(words: BTreeMap<String, (u32, u64, u64)>) -> (Dictionary, BTreeMap<String, TermEntry>) {
    let (mut writer, mut entries) = (DictionaryWriter::default(), BTreeMap::new());
    // Lists and tags lie one behind the other, somewhere.
    let (mut list, mut tags) = (17, 100_000);
    for (word, (count, list_bytes, tag_bytes)) in words {
        writer.word(word.as_bytes(), count, list_bytes, tag_bytes);
        let entry = TermEntry { count, list: list..list + list_bytes, tags: tags..tags + tag_bytes };
        (list, tags) = (list + list_bytes, tags + tag_bytes);
        entries.insert(word, entry);
    }
    let (blocks, heads) = writer.finish();
    let pages = in_memory([&b"before"[..], &blocks].concat());
    let len = heads.len() as u64;
    let heads = in_memory(heads).read(0..len).unwrap();
    (Dictionary::open(pages, heads, 6, 17, 100_000).unwrap(), entries)
}

fn any_words(rng: &mut Rng, count: usize) -> BTreeMap<String, (u32, u64, u64)> {
    let letters = ["a", "b", "ab", "é", "語", "zz", "0"];
    let mut words = BTreeMap::new();
    for _ in 0..count {
        let len = rng.range(1..=12);
        let word: String = (0..len).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect();
        words.insert(word, (1 + rng.below(1000) as u32, rng.below(100_000), rng.below(300)));
    }
    words
}

#[test]
fn every_word_is_found_and_no_other() {
    let mut rng = Rng::new(1);
    for count in [0, 1, 2, 50, 3000] {
        let (dictionary, entries) = made(any_words(&mut rng, count));
        for (word, entry) in &entries {
            assert_eq!(dictionary.find(word).unwrap().as_ref(), Some(entry), "{word}");
        }
        for word in any_words(&mut rng, 500).into_keys().chain([String::new(), "\u{10ffff}".to_owned()]) {
            assert_eq!(dictionary.find(&word).unwrap().as_ref(), entries.get(&word), "{word}");
        }
    }
}

#[test]
fn words_that_begin_alike_are_found_in_order() {
    let mut rng = Rng::new(2);
    for count in [0, 1, 40, 3000] {
        let (dictionary, entries) = made(any_words(&mut rng, count));
        let mut prefixes: Vec<String> = any_words(&mut rng, 60).into_keys().collect();
        prefixes.extend(["", "a", "ab", "z", "\u{10ffff}"].map(str::to_owned));
        prefixes.extend(entries.keys().step_by(97).cloned());
        for prefix in prefixes {
            let mut found = Vec::new();
            let take = |word: &[u8], entry| found.push((String::from_utf8(word.to_vec()).unwrap(), entry));
            dictionary.with_prefix(&prefix, take).unwrap();
            let wanted: Vec<(String, TermEntry)> = entries
                .iter()
                .filter(|(word, _)| word.starts_with(&prefix))
                .map(|(word, entry)| (word.clone(), entry.clone()))
                .collect();
            assert_eq!(found, wanted, "{prefix:?} of {count}");
        }
    }
}

#[test]
fn all_words_come_in_order() {
    let mut rng = Rng::new(3);
    for count in [0, 1, 4000] {
        let (dictionary, entries) = made(any_words(&mut rng, count));
        let mut cursor = dictionary.cursor();
        let mut all = Vec::new();
        while let Some(entry) = cursor.next().unwrap() {
            all.push((String::from_utf8(cursor.word().to_vec()).unwrap(), entry));
        }
        assert_eq!(all, entries.into_iter().collect::<Vec<_>>());
        assert_eq!(cursor.next().unwrap(), None, "the end may be asked for twice");
    }
}
