//! How a file comes about: a list of things that happened to it, decoded from the fuzzer's bytes.
//!
//! Random bytes never hold a right checksum, so random files alone would only ever be damage. A script writes
//! records with right checksums and right or wrong numbers, through the engine or by hand, and then hurts them.

use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};
use manent_log::{Durability, Expect, Log};

use crate::scene::{LOG, Scene, options, turn};

/// A file that is built step by step. Larger ones only cost time.
const FILE_BYTES_MAX: usize = 1 << 20;
const STEPS_MAX: usize = 24;
const REPEATED_BYTES_MAX: usize = 2048;

#[derive(Debug, Clone, Arbitrary)]
pub enum Step {
    /// The engine opens the file (recovering what is there) and appends so many records.
    Engine { records: u8, size: Size },
    /// The engine holds the file while another program appends to it, and then appends itself.
    EngineAndOther { theirs: Vec<Piece>, records: u8 },
    /// Bytes are put at the end.
    Put(Piece),
    /// Bytes are put somewhere.
    Insert { at: u16, piece: Piece },
    /// So many bytes are cut off the end.
    Cut { bytes: u16 },
    /// A stretch is taken out.
    Remove { at: u16, bytes: u16 },
    /// A bit flips.
    Flip { at: u16, bit: u8 },
    /// A stretch turns into NULs.
    Wipe { at: u16, bytes: u16 },
    /// A line is put there once more, behind another line.
    Repeat { line: u8, behind: u8 },
    /// A newline is lost.
    Join { newline: u8 },
}

#[derive(Debug, Clone, Arbitrary)]
pub enum Piece {
    /// A record with a right checksum.
    Record {
        seq: Seq,
        members: Members,
        end: LineEnd,
    },
    /// The first line.
    Header {
        format: u8,
        upto: Option<Upto>,
        requires: bool,
        end: LineEnd,
    },
    /// A whole line of another program's.
    Other {
        line: OtherLine,
        end: LineEnd,
    },
    /// NULs.
    Nuls(u16),
    /// Anything at all.
    Raw(Vec<u8>),
    Blank(BlankLine),
}

#[derive(Debug, Clone, Copy)]
pub enum Size {
    Small,
    /// Records of 20 kB: some of them make a file in which halving finds a number.
    Large,
}

impl<'a> Arbitrary<'a> for Size {
    /// Large ones are rare: each costs as much time as a hundred small ones.
    fn arbitrary(source: &mut Unstructured<'a>) -> arbitrary::Result<Size> {
        Ok(if u8::arbitrary(source)? == b'L' { Size::Large } else { Size::Small })
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Seq {
    /// The one after the last that was put.
    Next,
    More(u8),
    Less(u8),
    Any(u64),
    Largest,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Upto {
    Small(u8),
    Any(u64),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Members {
    None,
    Turn(u8),
    Gap {
        offset: u16,
        length: u16,
    },
    /// A member that holds a record as text, and one that holds one as an object that was not defused.
    Nested,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum LineEnd {
    Newline,
    CarriageReturn,
    Blanks,
    None,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum OtherLine {
    Turn(u8),
    /// `seq` is its first member, as in a record.
    SeqFirst(u8),
    /// `seq` is some member.
    SeqInside(u8),
    /// It ends as a record does.
    CrcLast(u8),
    Empty,
    Array,
    Half(u8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum BlankLine {
    Newline,
    Spaces,
    CarriageReturn,
    ByteOrderMark,
}

/// The file that an input stands for: behind `=` the file itself, else what a script makes.
pub fn file_of(data: &[u8]) -> Vec<u8> {
    if let Some(file) = data.strip_prefix(b"=") {
        return file.to_vec();
    }
    let steps = decode(data);
    if std::env::var_os("MANENT_FUZZ_SHOW").is_some() {
        eprintln!("{steps:#?}");
    }
    build(&steps)
}

/// Decodes a script; what does not decode ends it.
fn decode(data: &[u8]) -> Vec<Step> {
    let mut source = Unstructured::new(data);
    let mut steps = Vec::new();
    while !source.is_empty() && steps.len() < STEPS_MAX {
        let Ok(step) = Step::arbitrary(&mut source) else { break };
        steps.push(step);
    }
    steps
}

/// Builds the file of a script.
fn build(steps: &[Step]) -> Vec<u8> {
    let mut file = File { bytes: Vec::new(), next_seq: 0 };
    for step in steps {
        file.step(step);
        file.bytes.truncate(FILE_BYTES_MAX);
    }
    file.bytes
}

struct File {
    bytes: Vec<u8>,
    next_seq: u64,
}

impl File {
    fn step(&mut self, step: &Step) {
        let len = self.bytes.len();
        let place = |at: u16| usize::from(at) % (len + 1);
        let span = |at: u16, bytes: u16| place(at)..(place(at) + usize::from(bytes)).min(len);
        match step {
            Step::Engine { records, size } => self.engine(&[], *records, *size),
            Step::EngineAndOther { theirs, records } => self.engine(theirs, *records, Size::Small),
            Step::Put(piece) => {
                let bytes = self.piece(piece);
                self.bytes.extend(bytes);
            }
            Step::Insert { at, piece } => {
                let bytes = self.piece(piece);
                let at = place(*at);
                self.bytes.splice(at..at, bytes);
            }
            Step::Cut { bytes } => self.bytes.truncate(len.saturating_sub(usize::from(*bytes))),
            Step::Remove { at, bytes } => drop(self.bytes.drain(span(*at, *bytes))),
            Step::Flip { at, bit } => {
                let at = place(*at);
                if let Some(byte) = self.bytes.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Step::Wipe { at, bytes } => self.bytes[span(*at, *bytes)].fill(0),
            Step::Repeat { line, behind } => self.repeat(*line, *behind),
            Step::Join { newline } => {
                let newlines: Vec<usize> = (0..len).filter(|at| self.bytes[*at] == b'\n').collect();
                if !newlines.is_empty() {
                    self.bytes.remove(newlines[usize::from(*newline) % newlines.len()]);
                }
            }
        }
    }

    /// Lets the engine append, as a program would that comes upon this file. A refusal leaves the file as it is.
    fn engine(&mut self, theirs: &[Piece], records: u8, size: Size) {
        let theirs: Vec<Vec<u8>> = theirs.iter().map(|piece| self.piece(piece)).collect();
        let scene = Scene::with(&self.bytes);
        let Ok(mut log) = Log::open(&scene.disk, Path::new(LOG), &options()) else { return };
        for bytes in &theirs {
            scene.sim.raw_append(LOG, bytes).expect("no faults");
        }
        let text = match size {
            Size::Small => "words".to_owned(),
            Size::Large => "many words ".repeat(2000),
        };
        for _ in 0..records % 17 {
            if log.append(&turn(&text), Durability::Flush, Expect::Any).is_err() {
                break;
            }
        }
        self.next_seq = log.next_seq();
        self.bytes = scene.bytes();
    }

    fn repeat(&mut self, line: u8, behind: u8) {
        let lines: Vec<&[u8]> = self.bytes.split_inclusive(|b| *b == b'\n').collect();
        if lines.is_empty() {
            return;
        }
        let again = lines[usize::from(line) % lines.len()].to_vec();
        // A line without its newline would double each time, and thousands of records on one line only cost time.
        if again.len() > REPEATED_BYTES_MAX {
            return;
        }
        let at = lines[..=usize::from(behind) % lines.len()].iter().map(|line| line.len()).sum::<usize>();
        self.bytes.splice(at..at, again);
    }

    fn piece(&mut self, piece: &Piece) -> Vec<u8> {
        match piece {
            Piece::Record { seq, members, end } => {
                let seq = self.number(*seq);
                with_end(record(seq, &members_of(*members)), *end)
            }
            Piece::Header { format, upto, requires, end } => {
                let upto = upto.map(|upto| match upto {
                    Upto::Small(n) => u64::from(n),
                    Upto::Any(n) => n,
                });
                let parent = upto.map_or(String::new(), |n| format!(r#","parent":{{"upto":{n}}}"#));
                let requires = if *requires { r#","requires":["more"]"# } else { "" };
                // Mostly the format that can be written: the others are refused at once.
                let format = if *format < 240 { 1 } else { *format };
                self.next_seq = upto.map_or(1, |n| n.saturating_add(1));
                with_end(record(0, &format!(r#""meta":{{"format":{format}{requires}{parent}}}"#)), *end)
            }
            Piece::Other { line, end } => with_end(other_line(*line), *end),
            Piece::Nuls(count) => vec![0; usize::from(*count)],
            Piece::Raw(bytes) => bytes.clone(),
            Piece::Blank(BlankLine::Newline) => b"\n".to_vec(),
            Piece::Blank(BlankLine::Spaces) => b" \t \n".to_vec(),
            Piece::Blank(BlankLine::CarriageReturn) => b"\r\n".to_vec(),
            Piece::Blank(BlankLine::ByteOrderMark) => b"\xef\xbb\xbf".to_vec(),
        }
    }

    fn number(&mut self, seq: Seq) -> u64 {
        let seq = match seq {
            Seq::Next => self.next_seq,
            Seq::More(n) => self.next_seq.saturating_add(n.into()),
            Seq::Less(n) => self.next_seq.saturating_sub(n.into()),
            Seq::Any(n) => n,
            Seq::Largest => manent_log::frame::SEQ_MAX,
        };
        let seq = seq.min(manent_log::frame::SEQ_MAX);
        self.next_seq = seq + 1;
        seq
    }
}

/// A record as the format describes it, written independently of the engine.
pub fn record(seq: u64, members: &str) -> Vec<u8> {
    let comma = if members.is_empty() { "" } else { "," };
    let mut line = format!(r#"{{"seq":{seq}{comma}{members}"#).into_bytes();
    let crc = crc32c::crc32c(&line);
    line.extend(format!(r#","crc":"{crc:08x}"}}"#).into_bytes());
    line
}

fn members_of(members: Members) -> String {
    match members {
        Members::None => String::new(),
        Members::Turn(n) => format!(r#""role":"user","content":"turn {n}""#),
        Members::Gap { offset, length } => {
            format!(r#""ts":"t","kind":"gap","offset":{offset},"length":{length},"hash":"crc32c:00000000""#)
        }
        Members::Nested => {
            r#""kind":"x","a":"{\"seq\":1,\"crc\":\"00000000\"}","b":{"seq":1,"crc":"00000000"}"#.to_owned()
        }
    }
}

fn other_line(line: OtherLine) -> Vec<u8> {
    let whole = r#"{"role":"user","content":"half a line of another program"}"#;
    match line {
        OtherLine::Turn(n) => format!(r#"{{"role":"user","content":"theirs {n}"}}"#),
        OtherLine::SeqFirst(n) => format!(r#"{{"seq":{n},"role":"user"}}"#),
        OtherLine::SeqInside(n) => format!(r#"{{"role":"user","seq":{n}}}"#),
        OtherLine::CrcLast(n) => format!(r#"{{"role":"user","crc":"000000{n:02x}"}}"#),
        OtherLine::Empty => "{}".to_owned(),
        OtherLine::Array => "[1,2]".to_owned(),
        OtherLine::Half(n) => whole[..usize::from(n) % whole.len()].to_owned(),
    }
    .into_bytes()
}

fn with_end(mut line: Vec<u8>, end: LineEnd) -> Vec<u8> {
    line.extend_from_slice(match end {
        LineEnd::Newline => b"\n",
        LineEnd::CarriageReturn => b"\r\n",
        LineEnd::Blanks => b" \t\n",
        LineEnd::None => b"",
    });
    line
}
