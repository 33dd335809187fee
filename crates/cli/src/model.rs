//! `orrery model`: a model in a file, checked and drawn without a server; and the model of a database
//! on a server: shown, changed, and everything that it promises verified.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use orrery_modeling::diagram::Diagram;
use orrery_modeling::patch;
use orrery_server::wire::headers;
use orrery_types::Value;

use crate::account;
use crate::advise::{look_at, read_model};
use crate::exit::{Exit, Failure, UNREAD, usage};
use crate::progress::ProgressLine;
use crate::remote::{Remote, RemoteAnswer, RemoteArguments};

/// What to do with a model.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Check the form of a model; containers and expressions are checked when it is stored
    Check {
        /// The model as JSON
        file: PathBuf,
    },
    /// Draw declared and inferred types and relations
    Diagram(DiagramArguments),
    /// Print the model of a database, with the state of each rule
    Show(OnServer),
    /// Store a model, or put a part of one into the model that is there
    Apply {
        /// A model, or the patch of a finding, as JSON
        file: PathBuf,
        #[command(flatten)]
        on: OnServer,
    },
    /// Recompute everything that the model promises, and list the differences
    Verify(OnServer),
}

/// A database on a server.
#[derive(Debug, Args)]
pub(crate) struct OnServer {
    /// The database
    #[arg(long, short, env = "ORRERY_DATABASE", value_name = "NAME")]
    pub(crate) database: String,
    #[command(flatten)]
    pub(crate) server: RemoteArguments,
}

/// Arguments of `model diagram`.
#[derive(Debug, Args)]
pub(crate) struct DiagramArguments {
    /// The model as JSON
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Items as JSON lines; the file is named for their container. May be given several times
    #[arg(long, value_name = "FILE")]
    items: Vec<PathBuf>,
    /// A picture
    #[arg(long, conflicts_with = "mermaid")]
    svg: bool,
    /// Text that Mermaid draws; what happens without a choice too
    #[arg(long)]
    mermaid: bool,
}

pub(crate) fn run(command: &ModelCommand) -> Result<()> {
    let text = match command {
        ModelCommand::Check { file } => {
            let model = read_model(file)?;
            format!(
                "{} types, {} relations, {} aggregates, {} buckets: the form is right.\n",
                model.types.len(),
                model.relations.len(),
                model.aggregates.len(),
                model.buckets.len()
            )
        }
        ModelCommand::Diagram(arguments) => diagram(arguments)?,
        ModelCommand::Show(on) => {
            let answer = on.accepted(on.ask(&mut on.server.connect()?, "GET", &[], b"")?)?;
            String::from_utf8_lossy(&answer.body).into_owned() + "\n"
        }
        ModelCommand::Apply { file, on } => apply(file, on)?,
        ModelCommand::Verify(on) => verify(on)?,
    };
    std::io::stdout().write_all(text.as_bytes()).context(UNREAD)
}

impl OnServer {
    fn ask(
        &self,
        remote: &mut Remote,
        method: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<RemoteAnswer> {
        account::send(remote, method, &format!("/dbs/{}/_model", self.database), headers, body)
    }

    /// The answer, unless it is a refusal.
    fn accepted(&self, answer: RemoteAnswer) -> Result<RemoteAnswer> {
        if answer.status < 400 { Ok(answer) } else { Err(refusal(&self.database, &answer)) }
    }
}

/// The sub-status of a request for something in a database that is not there.
const OWNER_NOT_FOUND: &str = "1003";

/// A refusal as an error: the server's words, and what helps.
pub(crate) fn refusal(database: &str, answer: &RemoteAnswer) -> anyhow::Error {
    let owner = answer.header(headers::SUB_STATUS) == Some(OWNER_NOT_FOUND);
    let text = match answer.status {
        404 if owner => format!("there is no database '{database}'; check --database"),
        404 => format!(
            "the database '{database}' has no model; `orrery model apply FILE --database {database}` stores one"
        ),
        _ => return account::refusal(&format!("/dbs/{database}"), answer),
    };
    Failure::new(Exit::Refused, text).into()
}

/// Stores a whole model as it is; a patch goes into the model that is there, unless that changes
/// meanwhile.
fn apply(file: &Path, on: &OnServer) -> Result<String> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let given = Value::parse(&text).with_context(|| format!("{} is not JSON", file.display()))?;
    let mut remote = on.server.connect()?;
    let mut etag = None;
    let document = if patch::is_patch(&given) {
        let known = on.ask(&mut remote, "GET", &[], b"")?;
        let model = if known.status == 404 {
            Value::Undefined
        } else if known.status >= 400 {
            return Err(refusal(&on.database, &known));
        } else {
            etag = known.header("etag").map(str::to_owned);
            Value::parse(&known.body).context("the server's model is not JSON")?
        };
        match patch::merged(&model, &given) {
            Ok(merged) => merged,
            Err(reason) => bail!("{}: {reason}", file.display()),
        }
    } else {
        given
    };
    let headers: Vec<(&str, &str)> = etag.iter().map(|etag| ("if-match", etag.as_str())).collect();
    let stored = on.ask(&mut remote, "PUT", &headers, document.to_json().as_bytes())?;
    let stored = on.accepted(stored)?;
    let model = Value::parse(&stored.body).context("the server's answer is not JSON")?;
    let rules = model.get("_state").as_array().map_or(0, <[Value]>::len);
    let done = if stored.status == 201 { "stored" } else { "replaced" };
    Ok(format!("The model of '{}' is {done}: {rules} rules.\n", on.database))
}

/// Time between two looks at how far a verification is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

fn verify(on: &OnServer) -> Result<String> {
    let mut remote = on.server.connect()?;
    let mut ask = |what: &str| -> Result<Value> {
        let answer = on.ask(&mut remote, "GET", &[(headers::MODEL_VERIFY, what)], b"")?;
        let answer = on.accepted(answer)?;
        Value::parse(&answer.body).context("the server's answer is not JSON")
    };
    let mut report = ask("start")?;
    let progress = ProgressLine::of_items(Some(100));
    while report.get("state").as_str() == Some("running") {
        let percent = report.get("progress").as_i64().and_then(|n| u64::try_from(n).ok());
        let percent = percent.unwrap_or_default();
        progress.set_step(percent, &format!("{percent} % verified"));
        std::thread::sleep(LOOK_EVERY);
        report = ask("state")?;
    }
    progress.end();
    let Some(drift) = report.get("drift").as_array() else {
        bail!("the server's answer lists no drift; is it of this version?");
    };
    let count = |name: &str| report.get(name).as_i64().unwrap_or_default();
    let later = match count("pending") {
        0 => String::new(),
        pending => format!(" {pending} are to follow later, and have not followed yet."),
    };
    let items = count("items");
    if !drift.is_empty() {
        let lines: Vec<&str> = drift.iter().filter_map(Value::as_str).collect();
        let all = count("driftCount");
        bail!("{all} promises do not hold, of {items} items.{later}\n{}", lines.join("\n"));
    }
    let model = on.accepted(on.ask(&mut remote, "GET", &[], b"")?)?;
    let model = Value::parse(&model.body).context("the server's answer is not JSON")?;
    let unkept = unkept(&model);
    if !unkept.is_empty() {
        bail!(
            "Nothing has drifted in {items} items, but a rule is kept only when nothing breaks it any \
             more, and these are broken:{later}\n{}",
            unkept.join("\n")
        );
    }
    Ok(format!(
        "Everything that the model of '{}' promises holds: {items} items.{later}\n",
        on.database
    ))
}

/// The rules of a model that items break which were there before, with some of them.
fn unkept(model: &Value) -> Vec<String> {
    let rules = model.get("_state").as_array().unwrap_or_default();
    let line = |rule: &Value| {
        let (name, broken) = (rule.get("rule").as_str()?, rule.get("violations").as_i64()?);
        let samples = rule.get("samples").as_array().unwrap_or_default();
        let samples: Vec<&str> = samples.iter().filter_map(Value::as_str).collect();
        Some(format!("{name}: {broken} items. {}", samples.join(" ")))
    };
    rules.iter().filter_map(line).collect()
}

fn diagram(arguments: &DiagramArguments) -> Result<String> {
    if arguments.model.is_none() && arguments.items.is_empty() {
        return Err(usage("name a model, items, or both: --model FILE, --items FILE"));
    }
    let model = arguments.model.as_deref().map(read_model).transpose()?;
    let report = match arguments.items.as_slice() {
        [] => None,
        items => Some(look_at(items)?.finish(model.as_ref())),
    };
    let diagram = Diagram::new(model.as_ref(), report.as_ref());
    Ok(if arguments.svg { diagram.to_svg() } else { diagram.to_mermaid() })
}
