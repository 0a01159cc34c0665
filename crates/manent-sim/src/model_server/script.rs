//! What a model server answers to a request, byte for byte.

use std::time::Duration;

/// One thing that the server does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The HTTP status; 200 if there is none. Sent before the first chunk, wherever it stands.
    Status(u16),
    /// One more header; the same.
    Header(String, String),
    /// Bytes of the body, as one chunk.
    Chunk(Vec<u8>),
    /// Bytes as they are, without a head or a frame. A script with these says all of its answer itself.
    Raw(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Keeps the connection open and says nothing, until the client goes.
    Stall,
    /// Closes the connection, whatever was announced.
    Close(Closing),
}

/// The way in which a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// An orderly end: there is nothing more to send.
    Fin,
    /// An abort, as of a server that died.
    Rst,
}

/// An answer, step by step. Without an abrupt end the body is closed as it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    steps: Vec<Step>,
}

impl Script {
    /// Makes an empty script: status 200, and no body.
    pub fn new() -> Script {
        Script::default()
    }

    /// An answer that is there as a whole.
    pub fn body(bytes: impl AsRef<[u8]>) -> Script {
        Script::new().chunk(bytes)
    }

    /// An answer with a status and a message.
    pub fn error(status: u16, body: impl AsRef<[u8]>) -> Script {
        Script::new().step(Step::Status(status)).chunk(body)
    }

    /// An answer in chunks of so many bytes.
    pub fn split(bytes: impl AsRef<[u8]>, each: usize) -> Script {
        bytes.as_ref().chunks(each.max(1)).fold(Script::new(), Script::chunk)
    }

    /// One more step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Script {
        self.step(Step::Header(name.to_owned(), value.to_owned()))
    }

    /// More of the body. An empty chunk would be its end, so nothing is nothing.
    #[must_use]
    pub fn chunk(self, bytes: impl AsRef<[u8]>) -> Script {
        if bytes.as_ref().is_empty() { self } else { self.step(Step::Chunk(bytes.as_ref().to_vec())) }
    }

    /// Waits.
    #[must_use]
    pub fn pause(self, time: Duration) -> Script {
        self.step(Step::Pause(time))
    }

    /// Keeps the connection open from here on, and says nothing.
    #[must_use]
    pub fn stall(self) -> Script {
        self.step(Step::Stall)
    }

    /// Closes the connection here.
    #[must_use]
    pub fn close(self, how: Closing) -> Script {
        self.step(Step::Close(how))
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns true if the script sends everything itself.
    pub(super) fn is_raw(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Raw(_)))
    }

    /// Returns the bytes before the body.
    pub(super) fn head(&self) -> Vec<u8> {
        let status = self.steps.iter().find_map(|step| match step {
            Step::Status(status) => Some(*status),
            _ => None,
        });
        let mut head = format!("HTTP/1.1 {} Said\r\ntransfer-encoding: chunked\r\n", status.unwrap_or(200));
        for step in &self.steps {
            if let Step::Header(name, value) = step {
                head.extend([name.as_str(), ": ", value, "\r\n"]);
            }
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}
