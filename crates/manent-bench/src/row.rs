//! One comparison as it is shown: a line of a table, or one JSON object.
//!
//! The ratio is always read in the direction of its goal, so that nobody has to know whether a number is a time, a
//! rate or a size: `>= 3` goes with "times faster than the peer", `<= 1.1` with "times what the peer takes".

use serde::Serialize;

/// The goal of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// Ours takes at most an n-th of what the peer takes.
    FasterBy(f64),
    /// Ours takes at most n times what the peer takes.
    Within(f64),
    /// No goal: the row is there to be known. Its ratio reads as for `FasterBy`.
    Inform,
}

/// One comparison. Both values are costs (time or memory) in the same unit: less is better.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    bench: String,
    ours: f64,
    unit: &'static str,
    peer: String,
    peer_value: f64,
    ratio: f64,
    goal: Option<String>,
    met: Option<bool>,
}

impl Row {
    pub(crate) fn new(
        bench: impl Into<String>,
        ours: f64,
        unit: &'static str,
        peer: impl Into<String>,
        peer_value: f64,
        goal: Goal,
    ) -> Row {
        let (ratio, text, met) = match goal {
            Goal::FasterBy(n) => (peer_value / ours, Some(format!(">= {n}")), Some(peer_value / ours >= n)),
            Goal::Within(n) => (ours / peer_value, Some(format!("<= {n}")), Some(ours / peer_value <= n)),
            Goal::Inform => (peer_value / ours, None, None),
        };
        let (ours, peer_value, ratio) = (digits(ours), digits(peer_value), digits(ratio));
        Row { bench: bench.into(), ours, unit, peer: peer.into(), peer_value, ratio, goal: text, met }
    }

    fn cells(&self) -> [String; 7] {
        let met = match self.met {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        [
            self.bench.clone(),
            format!("{} {}", self.ours, self.unit),
            self.peer.clone(),
            format!("{} {}", self.peer_value, self.unit),
            format!("{}x", self.ratio),
            self.goal.clone().unwrap_or_else(|| "-".to_owned()),
            met.to_owned(),
        ]
    }
}

/// Four digits: more would be noise on any machine.
fn digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = (3.0 - value.abs().log10().floor()).max(0.0);
    let scale = 10_f64.powf(places);
    (value * scale).round() / scale
}

/// All rows as an aligned Markdown table, ready for docs/BENCH.md.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["bench", "ours", "peer", "peer's value", "ratio", "goal", "met"].map(str::to_owned);
    let body: Vec<[String; 7]> = rows.iter().map(Row::cells).collect();
    let width = |column: usize| {
        body.iter().chain([&head]).map(|cells| cells[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let rule = std::array::from_fn(|i| "-".repeat(widths[i]));
    let mut out = String::new();
    for cells in [head.clone(), rule].iter().chain(&body) {
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, w)| format!("{cell:<w$}")).collect();
        out.extend(["| ", &padded.join(" | "), " |\n"]);
    }
    out
}
