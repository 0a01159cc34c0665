//! A real browser, without a window: what a page looks like, and what it does.
//!
//! It is spoken to through two pipes (`--remote-debugging-pipe`): JSON with a zero behind each message.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::environment::HANG;

pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// Events that came meanwhile: messages of the console, requests.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// The names of browsers that speak the protocol.
const NAMES: [&str; 3] = ["chromium-headless-shell", "chromium", "google-chrome"];

impl Browser {
    /// Starts one. Nothing: there is none here.
    pub(crate) fn start() -> Option<Browser> {
        let name = NAMES.into_iter().find(|name| super::machine::has(name))?;
        let profile = tempfile::tempdir().unwrap();
        // Numbers 3 and 4 are the pipes; a shell can give them, and Rust alone cannot without `unsafe`.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", "browser", name]);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.args(["--remote-debugging-pipe", "--hide-scrollbars", "--disable-background-networking"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                let read = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message));
                if read.is_ok_and(|value| sender.send(value).is_err()) {
                    break;
                }
                message.clear();
            }
        });
        let events = Vec::new();
        let mut browser =
            Browser { child, to, from, session: String::new(), next: 0, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for part in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{part}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Asks for something, and waits for the answer.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let got =
                self.from.recv_timeout(HANG).unwrap_or_else(|e| panic!("{method} is not answered: {e}"));
            if got["id"] == json!(id) {
                assert!(got["error"].is_null(), "{method}: {}", got["error"]);
                return got["result"].clone();
            }
            self.events.push(got);
        }
    }

    /// Shows a file in a window of this width, light or dark, and gives what happened while it did.
    #[track_caller]
    pub(crate) fn show(&mut self, file: &Path, width: u32, scheme: &str) -> Vec<Value> {
        self.events.clear();
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let got = self.from.recv_timeout(HANG).expect("the page is loaded");
            self.events.push(got);
        }
        // What a page does after it was loaded, it does at once.
        while let Ok(got) = self.from.recv_timeout(Duration::from_millis(50)) {
            self.events.push(got);
        }
        std::mem::take(&mut self.events)
    }

    /// Runs a script in the page and returns its value.
    #[track_caller]
    pub(crate) fn look(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "returnByValue": true});
        let got = self.call("Runtime.evaluate", params);
        assert!(got["exceptionDetails"].is_null(), "{script}: {got}");
        got["result"]["value"].clone()
    }

    /// The whole page as a PNG, in base64.
    pub(crate) fn picture(&mut self) -> String {
        let params = json!({"format": "png", "captureBeyondViewport": true});
        self.call("Page.captureScreenshot", params)["data"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests other than for the file itself, and whatever was said on the console.
pub(crate) fn misdeeds(events: &[Value]) -> Vec<String> {
    let bad = events.iter().filter(|event| match event["method"].as_str().unwrap_or_default() {
        "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => true,
        "Network.requestWillBeSent" => {
            !event["params"]["request"]["url"].as_str().unwrap_or_default().starts_with("file://")
                || event["params"]["type"] != "Document"
        }
        _ => false,
    });
    bad.map(Value::to_string).collect()
}
