//! Writes the files of a data set: the rows and the manifest. Nothing in them depends on the time or the machine.

use serde_json::{Map, Value, json};

use super::clean::label;
use super::draft::AttemptVerdict;
use super::gather::Gathered;
use super::output_dir::{OutputDir, OutputFile};
use super::select::{OutputRow, RowSet, Selection};
use super::spool::RowPieces;
use super::{Dataset, DatasetFile, DatasetFormat, DatasetResult, Progress, Recipe, card};

/// Writes everything into the place.
pub(super) fn write(
    recipe: &Recipe,
    place: &OutputDir,
    gathered: &mut Gathered,
    chosen: &Selection,
    progress: Progress<'_>,
) -> DatasetResult<Dataset> {
    let mut files = Vec::new();
    let mut from = 0;
    let all = gathered.spool.file.bytes.max(1);
    let mut done = 0_u64;
    for (name, set, in_validation) in files_of(recipe.format) {
        let rest = &chosen.items[from..];
        let count =
            rest.iter().take_while(|item| (item.set, item.in_validation) == (set, in_validation)).count();
        let mut file = place.create_hashed(name)?;
        let mut pieces = (RowPieces::default(), RowPieces::default());
        for (at, item) in rest[..count].iter().enumerate() {
            let line = &mut RowWriter { format: recipe.format, file: &mut file, pieces: &mut pieces };
            done += line.write(item, place, gathered)?;
            if at.is_multiple_of(TELL_EVERY) {
                let share =
                    (u128::from(gathered.read_bytes) * u128::from(done.min(all)) / u128::from(all)) as u64;
                progress(gathered.read_bytes + share, gathered.read_bytes * 2);
            }
        }
        files.push(file.close(name, count as u64)?);
        from += count;
    }
    gathered.spool.remove(place)?;
    let made = Dataset {
        dir: place.dir.clone(),
        files,
        counts: gathered.counts.clone(),
        groups: chosen.groups,
        validation_groups: chosen.validation_groups,
    };
    if recipe.format == DatasetFormat::ShareGpt {
        put(place, "dataset_info.json", &pretty(&card::dataset_info(&made)))?;
    }
    put(place, "manifest.json", &pretty(&manifest(recipe, gathered, chosen, &made)))?;
    put(place, "README.md", &card::card(recipe, &made))?;
    progress(gathered.read_bytes * 2, gathered.read_bytes * 2);
    Ok(made)
}

/// The files of a format with their rows, in the order in which rows are sorted.
pub(super) fn files_of(format: DatasetFormat) -> impl Iterator<Item = (&'static str, RowSet, bool)> {
    let is_used = move |set: RowSet| set != RowSet::Unpaired || format == DatasetFormat::TrlDpo;
    ROW_FILES.into_iter().filter(move |(_, set, _)| is_used(*set))
}

/// The files of rows: the set that each holds, and whether it is for validation.
pub(super) const ROW_FILES: [(&str, RowSet, bool); 6] = [
    ("train.jsonl", RowSet::Main, false),
    ("validation.jsonl", RowSet::Main, true),
    ("unpaired-train.jsonl", RowSet::Unpaired, false),
    ("unpaired-validation.jsonl", RowSet::Unpaired, true),
    ("repair-train.jsonl", RowSet::Repair, false),
    ("repair-validation.jsonl", RowSet::Repair, true),
];

struct RowWriter<'a> {
    format: DatasetFormat,
    file: &'a mut OutputFile,
    pieces: &'a mut (RowPieces, RowPieces),
}

impl RowWriter<'_> {
    /// Writes a row; gives how much of the spool it was.
    fn write(&mut self, item: &OutputRow, place: &OutputDir, gathered: &mut Gathered) -> DatasetResult<u64> {
        let (first, second) = (&mut self.pieces.0, &mut self.pieces.1);
        let row = gathered.rows[item.row as usize];
        gathered.spool.get(row.slot, place, first)?;
        let label: &[u8] = if row.verdict == AttemptVerdict::Good { b"true" } else { b"false" };
        let [prompt, answer, besides] = first.each_ref().map(Vec::as_slice);
        let parts: &[&[u8]] = match (self.format, item.rejected, item.set) {
            (DatasetFormat::OpenAi, ..) => &[b"{\"messages\":[", prompt, b",", answer, b"]", besides, b"}\n"],
            (DatasetFormat::ShareGpt, ..) => {
                &[b"{\"conversations\":[", prompt, b",", answer, b"]", besides, b"}\n"]
            }
            (DatasetFormat::TrlDpo, Some((rejected, same_model)), _) => {
                gathered.spool.get(gathered.rows[rejected as usize].slot, place, second)?;
                let same: &[u8] =
                    if same_model { b"],\"same_model\":true" } else { b"],\"same_model\":false" };
                let other = &second[1];
                let [open, chosen, middle] = [&b"{\"prompt\":["[..], b"],\"chosen\":[", b"],\"rejected\":["];
                &[open, prompt, chosen, answer, middle, other, same, besides, b"}\n"]
            }
            (DatasetFormat::Kto, ..) | (DatasetFormat::TrlDpo, None, RowSet::Unpaired) => {
                let [open, middle] = [&b"{\"prompt\":["[..], b"],\"completion\":["];
                &[open, prompt, middle, answer, b"],\"label\":", label, besides, b"}\n"]
            }
            (DatasetFormat::TrlSft | DatasetFormat::TrlDpo, ..) => {
                let [open, middle] = [&b"{\"prompt\":["[..], b"],\"completion\":["];
                &[open, prompt, middle, answer, b"]", besides, b"}\n"]
            }
        };
        for part in parts {
            self.file.put(part)?;
        }
        Ok((prompt.len() + answer.len() + besides.len()) as u64)
    }
}

fn put(place: &OutputDir, name: &'static str, text: &str) -> DatasetResult<DatasetFile> {
    let mut file = place.create(name)?;
    file.put(text.as_bytes())?;
    file.close(name, 0)
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Describes the contents of the data set, where they came from, and what was left out. No clock and no machine is
/// asked, so that the same logs give the same text.
fn manifest(recipe: &Recipe, gathered: &Gathered, chosen: &Selection, made: &Dataset) -> Value {
    let counts = &made.counts;
    let left_out: Map<String, Value> =
        counts.left_out.iter().map(|(why, count)| (why.word().to_owned(), json!(count))).collect();
    let file = |file: &DatasetFile| {
        let DatasetFile { name, rows, bytes, hash, .. } = file;
        json!({"name": name, "rows": rows, "bytes": bytes, "blake3": hash})
    };
    json!({
        "manifest_version": MANIFEST_VERSION,
        "made_by": concat!("manent/", env!("CARGO_PKG_VERSION")),
        "format": recipe.format.word(),
        "filters": {
            "since": recipe.since_ms.map(time),
            "until": recipe.until_ms.map(time),
            "project": recipe.project.as_deref().map(label),
            "skill": recipe.skill.as_deref().map(label),
            "model": recipe.model.as_deref().map(label),
            "same_model_only": recipe.same_model_only,
            "with_memory": recipe.with_memory,
            "summaries": recipe.summaries,
        },
        "files": made.files.iter().map(file).collect::<Vec<_>>(),
        "split": {
            "validation_percent": f64::from(recipe.validation) / 100.0,
            "by": "project, else session",
            "groups": made.groups,
            "validation_groups": made.validation_groups,
        },
        "counts": {
            "runs": counts.runs,
            "attempts": counts.attempts,
            "rows_from_summaries": counts.from_summaries,
            "memory_blocks_left_out": counts.memory_left_out,
            "texts_beside_calls_left_out": counts.beside_calls,
            "unreadable_lines": counts.unreadable,
        },
        "left_out": left_out,
        "redacted": {"secrets": counts.secrets, "names_in_home_directories": counts.homes},
        "from": gathered.times.map(|times| time(times.0)),
        "to": gathered.times.map(|times| time(times.1)),
        "sources": sources(gathered, chosen),
        "quoted": quoted(gathered),
    })
}

/// The logs of runs that gave rows.
fn sources(gathered: &Gathered, chosen: &Selection) -> Vec<Value> {
    let mut rows = vec![0_u64; gathered.sources.len()];
    for item in &chosen.items {
        let both = [Some(item.row), item.rejected.map(|(row, _)| row)];
        for row in both.into_iter().flatten() {
            rows[gathered.rows[row as usize].source as usize] += 1;
        }
    }
    let gave = gathered.sources.iter().zip(rows).filter(|(_, rows)| *rows > 0);
    gave.map(|(source, rows)| {
        let address = &source.listed.id;
        let key = label(address.key.as_str());
        json!({"runs_of": key, "id": address.id, "records": source.records, "attempts": rows})
    })
    .collect()
}

/// The sessions that were quoted, each from its first to its last record that was.
fn quoted(gathered: &Gathered) -> Vec<Value> {
    let one = |((session, id), records): (&(String, String), &(u64, u64))| {
        let (session, id) = (label(session), label(id));
        json!({"session": session, "id": id, "records": records})
    };
    gathered.quoted.iter().map(one).collect()
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Raised when a change of the manifest matters to its readers.
const MANIFEST_VERSION: u64 = 1;
const TELL_EVERY: usize = 1000;
