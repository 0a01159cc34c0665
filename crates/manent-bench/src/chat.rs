//! A chat: from its start to its prompt, and what a turn takes besides the model.
//!
//! The model is a server in this process that answers at once. The peer of the start is what people begin with: a
//! Python program that imports the usual SDK, makes its client and shows a prompt. A turn is a question asked of the
//! kernel until its answer is in the log; the same request sent by the same client, and nothing else done, is taken
//! off it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use manent::context::Limits;
use manent::log::RealDisk;
use manent::tokens::Tokens;
use manent::{SessionKey, Store, turn};
use manent_agent::config::{Config, ConsolidationTrigger};
use manent_agent::kernel::{CallStyle, Kernel, Toolbox};
use manent_agent::policy::{Approvals, Approver, PolicyRules, ToolPolicy};
use manent_agent::providers::{Model, Ollama, Request, ServerConfig};
use manent_agent::skills::Skills;
use manent_sim::model_server::{ModelServer, replies};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::runtime::{Builder, Runtime};

use crate::data::Turns;
use crate::measure::interleaved;
use crate::row::{Goal, Row};
use crate::{Bench, Result, session};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("chat")?;
    let server = ModelServer::start(|_| replies::ollama("It is as you say."))?;
    let mut rows = starts(bench, &dir, &server)?;
    rows.push(turns(bench, &dir, &server, "a short context", 0)?);
    rows.push(turns(bench, &dir, &server, "a context of 25,000 tokens", 25_000)?);
    Ok(rows)
}

fn starts(bench: &Bench, dir: &Path, server: &ModelServer) -> Result<Vec<Row>> {
    let manent = std::env::current_exe()?.with_file_name("manent");
    if !manent.is_file() {
        eprintln!("manent-bench: there is no {}, so the start of a chat is left out", manent.display());
        return Ok(Vec::new());
    }
    let home = dir.join("store");
    let made = session::make(&home, "long", crate::load::SESSION_BYTES, None)?;
    let config = format!(
        "[agent]\nmodel = \"{}\"\n[ollama]\nurl = \"{}\"\n[consolidation]\nwhen = \"off\"\n",
        replies::MODEL,
        server.url()
    );
    std::fs::write(home.join("config.toml"), config)?;
    let chat = |key: &str| {
        let mut command = Command::new(&manent);
        command.arg("--home").arg(&home).args(["chat", key]).current_dir(dir);
        until_prompt(command)
    };
    let python = python_with_sdk();
    let mut peer = || match &python {
        Some(python) => {
            let mut command = Command::new(python);
            command.args(["-c", PYTHON_AGENT]);
            until_prompt(command)
        }
        None => Ok(f64::NAN),
    };
    let mut number = 0;
    let [new, long, sdk] = interleaved(
        bench.rounds(15),
        [
            &mut || {
                number += 1;
                chat(&format!("new-{number}"))
            },
            &mut || chat(made.key.as_str()),
            &mut peer,
        ],
    )?;
    let mut rows = Vec::new();
    if python.is_some() {
        let peer = "Python, importing the openai SDK, to its prompt";
        rows.push(Row::new("chat, from start to prompt", new, "ms", peer, sdk, Goal::FasterBy(5.0)));
    }
    let name = "the same, going on with 100 MB";
    rows.push(Row::new(name, long, "ms", "with a new session", new, Goal::Within(1.5)));
    Ok(rows)
}

/// Milliseconds until a program on a terminal shows `> `.
fn until_prompt(mut command: Command) -> Result<f64> {
    let (mut master, slave) = terminal()?;
    command.env("TERM", "xterm").stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let start = Instant::now();
    let mut child = command.spawn()?;
    drop(command);
    let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
    while !seen.windows(2).any(|window| window == b"> ") {
        let count = master.read(&mut bytes).unwrap_or(0);
        if count == 0 || start.elapsed() > Duration::from_mins(1) {
            let _ = child.kill();
            return Err(format!("no prompt comes: {}", String::from_utf8_lossy(&seen)).into());
        }
        seen.extend_from_slice(&bytes[..count]);
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    // Ctrl-D. What it says on leaving must be read, or it would wait for that.
    master.write_all(b"\x04")?;
    while master.read(&mut bytes).is_ok_and(|count| count > 0) {}
    child.wait()?;
    Ok(took)
}

fn terminal() -> Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::NOCTTY.bits().cast_signed())
        .open(path)?;
    Ok((File::from(master), slave))
}

/// A Python that has the SDK; else a word about it.
fn python_with_sdk() -> Option<PathBuf> {
    let python = std::env::var_os("MANENT_BENCH_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let has = Command::new(&python)
        .args(["-c", "import openai"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has {
        eprintln!(
            "manent-bench: {} has no openai SDK, so it is left out; `pip install openai`, or name another in \
             MANENT_BENCH_PYTHON",
            python.display()
        );
    }
    has.then_some(python)
}

/// The time that a turn takes besides the model, beside what it may.
fn turns(bench: &Bench, dir: &Path, server: &ModelServer, name: &str, tokens: u64) -> Result<Row> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let home = dir.join(format!("turns-{tokens}"));
    let store = Store::open(&home)?;
    let model: Model = Ollama::new(&ServerConfig::at(server.url()), replies::MODEL)?.into();
    // Nothing is compacted here: then a model is asked for a summary.
    let limits = Limits { max_tokens: u64::MAX, max_messages: usize::MAX };
    let mut config = Config::default();
    (config.consolidate, config.limits) = (ConsolidationTrigger::Off, limits);
    let workspace = dir.join("workspace");
    std::fs::create_dir_all(&workspace)?;
    let system = "You are a helpful assistant.".to_owned();
    let toolbox = toolbox(workspace);
    let kernel = Kernel::start(runtime.handle(), store.clone(), model.clone(), config, system, Some(toolbox));
    let mut number = 0;
    let mut next = || -> Result<SessionKey> {
        number += 1;
        let key = SessionKey::new(format!("{number}"))?;
        fill(&store, &key, tokens)?;
        // The first turn of a session writes what is sent besides the turns.
        ask(&runtime, &kernel, &key)?;
        Ok(key)
    };
    let mut sync = one_sync(&home)?;
    let [all, request, sync] = interleaved(
        bench.rounds(15),
        [
            &mut || {
                let key = next()?;
                let start = Instant::now();
                for _ in 0..TURNS {
                    ask(&runtime, &kernel, &key)?;
                }
                Ok(start.elapsed().as_secs_f64() * 1e3 / f64::from(TURNS))
            },
            &mut || {
                let context = store.context(&SessionKey::new("1")?, Tokens::default())?;
                let request = Request::from(&context);
                let start = Instant::now();
                for _ in 0..TURNS {
                    runtime.block_on(model.chat(&request, &mut |_| {}))?;
                }
                Ok(start.elapsed().as_secs_f64() * 1e3 / f64::from(TURNS))
            },
            &mut || {
                let start = Instant::now();
                for _ in 0..TURNS {
                    sync()?;
                }
                Ok(start.elapsed().as_secs_f64() * 1e3 / f64::from(TURNS))
            },
        ],
    )?;
    runtime.block_on(kernel.end(Duration::from_secs(5)));
    let ours = (all - request).max(0.0);
    eprintln!("a turn with {name}: {all:.3} ms, of which the model {request:.3} ms; one sync {sync:.3} ms");
    let bench = format!("a turn besides its model, {name}");
    // The question is synced before the model is asked, the answer before it counts.
    Ok(Row::new(bench, ours, "ms", "2 ms and two syncs", 2.0 + 2.0 * sync, Goal::Within(1.0)))
}

fn ask(runtime: &Runtime, kernel: &Kernel, key: &SessionKey) -> Result<()> {
    let answered = runtime.block_on(async {
        let hearing = kernel.conversation(key).ask("and what of the other one?").await?;
        Ok::<_, Box<dyn std::error::Error>>(hearing.end().await?)
    });
    answered.map_err(|e| e.to_string())?.seq.ok_or("nothing was said")?;
    Ok(())
}

/// Says so much that a context takes so many tokens.
fn fill(store: &Store, key: &SessionKey, tokens: u64) -> Result<()> {
    let (counting, mut count, mut bodies) = (Tokens::default(), 0, Vec::new());
    for (n, made) in Turns::new(8).enumerate() {
        if count >= tokens {
            break;
        }
        count += counting.count(&made.content);
        bodies.push(turn(if n % 2 == 0 { "user" } else { "assistant" }, made.content).into());
    }
    if !bodies.is_empty() {
        store.append_with(key, &bodies, manent::Durability::Sync, manent::Expect::Any)?;
    }
    Ok(())
}

/// Makes the baseline of a durable append without us: a write and a sync.
fn one_sync(home: &Path) -> Result<impl FnMut() -> Result<()>> {
    std::fs::create_dir_all(home)?;
    let mut file = OpenOptions::new().create(true).append(true).open(home.join("bare"))?;
    let line = [b'x'; 200];
    Ok(move || {
        file.write_all(&line)?;
        rustix::fs::fdatasync(&file)?;
        Ok(())
    })
}

fn toolbox(workspace: PathBuf) -> Toolbox {
    Toolbox {
        disk: RealDisk::shared(),
        workspace,
        hidden: Vec::new(),
        shell: None,
        policy: Mutex::new(ToolPolicy::new(PolicyRules::default(), Approvals::default())),
        asking: Approver::Nobody,
        unreadable: Vec::new(),
        skills: Skills::default(),
        calling: CallStyle::Native,
    }
}

const TURNS: u32 = 10;
/// The usual beginning: a client, and a loop with a prompt.
const PYTHON_AGENT: &str = "\
import openai
client = openai.OpenAI(api_key='none', base_url='http://127.0.0.1:1/v1')
while True:
    try:
        input('> ')
    except EOFError:
        break
";
