//! The page of `manent retro --html` in a real browser: what is to be seen, on a phone and on a screen, light and dark,
//! and that it does nothing else.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::TestEnvironment;
use crate::support::browser::{Browser, misdeeds};
use crate::support::machine::skip;
use crate::support::runs::{broken_on_the_way, run};

/// Writes the page of some runs.
fn page_of(env: &TestEnvironment, entries: &[Value]) -> PathBuf {
    env.plant_runs("a", entries);
    let file = env.root().join("retro.html");
    env.manent(&["retro", "--html", file.to_str().unwrap()]).assert_code(0);
    file
}

#[test]
fn the_charts_are_there_and_nothing_overflows_or_calls_home() {
    let Some(mut browser) = Browser::start() else {
        return skip("the_charts_are_there_and_nothing_overflows_or_calls_home", "there is no chromium here");
    };
    let env = TestEnvironment::new();
    let file = page_of(&env, &broken_on_the_way());
    let mut backgrounds = Vec::new();
    for (width, scheme) in [(1200, "light"), (1200, "dark"), (400, "light"), (400, "dark")] {
        let events = browser.show(&file, width, scheme);
        assert_eq!(misdeeds(&events), Vec::<String>::new(), "at {width}, {scheme}");
        let count = |browser: &mut Browser, what: &str| {
            browser.look(&format!("document.querySelectorAll({what:?}).length"))
        };
        // Two skills with enough runs have a bar and a whisker; the one with three has neither.
        assert_eq!(count(&mut browser, "svg.rate"), 3);
        assert_eq!(count(&mut browser, "svg.rate rect.bar"), 2);
        assert_eq!(count(&mut browser, "svg.rate path.whisker"), 2);
        assert_eq!(count(&mut browser, "svg.span"), 2);
        // 105 hours are five days.
        assert_eq!(count(&mut browser, "svg.time g.column"), 5);
        assert_eq!(count(&mut browser, ".failure rect.bar"), 1);
        assert_eq!(count(&mut browser, "svg:not([aria-label])"), 0, "every picture has words");
        let wide =
            browser.look("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, 0, "it is wider than {width}");
        let out = browser.look(OUTSIDE);
        assert_eq!(out, json!([]), "at {width}");
        let small = browser.look(
            "Math.min(...[...document.querySelectorAll('p,li,td,dd,dt,span,div.value')]\
            .map(e => parseFloat(getComputedStyle(e).fontSize)))",
        );
        assert!(small.as_f64().unwrap() >= 12.0, "{small}");
        let contrast = browser.look(CONTRAST);
        assert!(contrast.as_f64().unwrap() >= 4.5, "{contrast} at {scheme}");
        backgrounds.push(browser.look("getComputedStyle(document.body).backgroundColor"));
        if let Some(dir) = std::env::var_os("MANENT_PICTURES") {
            let name = PathBuf::from(dir).join(format!("retro-{width}-{scheme}.b64"));
            std::fs::write(name, browser.picture()).unwrap();
        }
    }
    assert!(backgrounds[0] != backgrounds[1] && backgrounds[0] == backgrounds[2], "{backgrounds:?}");
    let title = browser.look("document.querySelector('svg.rate title').textContent");
    assert!(title.as_str().unwrap().contains("fix with small in build: "), "{title}");
}

/// Elements that reach out of the window, but for what scrolls by itself.
const OUTSIDE: &str = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && \
    e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)\
    .map(e => e.tagName + '.' + e.className)";

/// The least contrast of the colours in which anything is written on the page.
const CONTRAST: &str = "(() => { const lum = c => { const v = c.match(/[0-9.]+/g).slice(0, 3).map(x => x / 255)\
    .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); \
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; }; \
    const back = lum(getComputedStyle(document.body).backgroundColor); \
    return Math.min(...[...document.querySelectorAll('p,li,dt,span,code,h1,h2,summary')].map(e => { \
    const front = lum(getComputedStyle(e).color); \
    return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05); })); })()";

#[test]
fn nothing_in_a_record_becomes_markup() {
    let Some(mut browser) = Browser::start() else {
        return skip("nothing_in_a_record_becomes_markup", "there is no chromium here");
    };
    let hostile = "</script></style></title><img src=x onerror=console.log('obeyed')>\"'>\
                   <script>console.log(1)</script>\u{202e}";
    let mut entries: Vec<Value> = (0..20).map(|n| run(n, hostile, hostile, hostile, n % 2 == 0)).collect();
    entries.extend((20..40).map(|n| run(n, hostile, hostile, &format!("{hostile}2"), n == 25)));
    for (n, entry) in entries.iter_mut().enumerate() {
        for name in ["phase", "project_root", "session_id", "file_path"] {
            entry[name] = json!(hostile);
        }
        entry["run_id"] = json!(format!("{hostile}{n}"));
        entry["input"] = json!({hostile: n % 2});
        for name in ["runner_output", "output_summary", "error_class", "sandbox"] {
            entry["attempts"][0][name] = json!(format!("error {hostile}"));
        }
        if n % 10 == 9 {
            entry["final_status"] = json!(hostile);
        }
    }
    let env = TestEnvironment::new();
    let file = page_of(&env, &entries);
    for width in [400, 1200] {
        let events = browser.show(&file, width, "light");
        assert_eq!(misdeeds(&events), Vec::<String>::new());
        assert_eq!(browser.look("document.querySelectorAll('img, script').length"), 0);
        assert_eq!(
            browser.look("document.documentElement.scrollWidth <= document.documentElement.clientWidth"),
            true
        );
        assert!(
            browser.look("document.body.innerText").as_str().unwrap().contains("</script>"),
            "it is shown as text"
        );
    }
}

#[test]
fn an_empty_store_has_a_page_too() {
    let env = TestEnvironment::new();
    let file = page_of(&env, &[]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("<h1>No runs in this time</h1>") && text.ends_with("</html>\n"), "{text}");
    assert!(!text.contains("<script") && !text.contains("http://") && !text.contains("https://"));
}
