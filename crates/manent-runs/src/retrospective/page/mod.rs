//! The report as a page: one file with everything in it, for any browser, without a script and without a network.
//!
//! Charts are drawn as SVG that stretches; what is to be read is text beside them, so that it stays legible on a
//! phone. Whatever comes from a record goes through [`safe`], and the page forbids itself scripts and requests.

/// Writes to the end of a page.
macro_rules! put {
    ($page:expr, $($text:tt)*) => {{
        use std::fmt::Write as _;
        // Writing to a string does not fail.
        let _ = write!($page, $($text)*);
    }};
}

mod charts;
mod parts;
mod safe;

use super::narrative::Narrative;
use super::report::Report;
pub(super) use parts::{compared_name, counted, lasting};
pub(super) use safe::is_hidden;
use safe::safe;

impl Report {
    /// The report as an HTML page, with what a model made of it, if one did.
    pub fn to_html(&self, narrative: Option<&Narrative>) -> String {
        let mut page = String::with_capacity(64 << 10);
        let title = parts::headline(self);
        page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        // Whatever might slip through could neither run nor fetch anything.
        page.push_str(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
        );
        page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
        put!(page, "<title>Retrospective: {}</title>\n<style>\n", safe(&title));
        page.push_str(STYLE);
        page.push_str("</style>\n</head>\n<body>\n<main>\n");
        parts::head(self, &title, &mut page);
        parts::standing_out(self, &mut page);
        if let Some(narrative) = narrative {
            parts::narrative(narrative, &mut page);
        }
        charts::over_time(self, &mut page);
        charts::rates(self, &mut page);
        charts::attempts(self, &mut page);
        charts::durations(self, &mut page);
        charts::failures(self, &mut page);
        parts::comparisons(self, &mut page);
        parts::figures(self, &mut page);
        parts::grounds(self, &mut page);
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }
}

const STYLE: &str = include_str!("style.css");
