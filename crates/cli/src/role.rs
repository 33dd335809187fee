//! `orrery role`: roles of Entra ID principals on a server, and who has them.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use orrery_types::{Object, Value};
use uuid::Uuid;

use crate::account::{list_all, must};
use crate::confirm;
use crate::exit::usage;
use crate::json_input;
use crate::output::{Print, PrintArguments};
use crate::remote::{Remote, RemoteArguments};

const DEFINITIONS: &str = "/_roledefinitions";
const ASSIGNMENTS: &str = "/_roleassignments";
const JSON: (&str, &str) = ("content-type", "application/json");

/// What to do with roles.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// List roles, or with --assignments who has them
    List {
        /// List assignments
        #[arg(long)]
        assignments: bool,
        #[command(flatten)]
        server: RoleServer,
    },
    /// Print a role, by id or name
    Show {
        /// Its id or its name
        role: String,
        #[command(flatten)]
        server: RoleServer,
    },
    /// Create a role, or replace the one with its id
    Create(NewRole),
    /// Delete a role that is not assigned
    Delete {
        /// Its id or its name
        role: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        server: RoleServer,
    },
    /// Give a principal or a group a role
    Assign {
        /// The id or the name of the role; reader and contributor are the built-in ones
        role: String,
        /// Object id of the user, application or group
        #[arg(long, value_name = "ID")]
        principal: String,
        /// Where: /, /dbs/{database} or /dbs/{database}/colls/{container}
        #[arg(long, value_name = "PATH", default_value = "/")]
        scope: String,
        #[command(flatten)]
        server: RoleServer,
    },
    /// Take a role away: by the id of the assignment, or all that a principal has
    Revoke {
        /// The id of the assignment
        #[arg(required_unless_present = "principal", conflicts_with = "principal")]
        assignment: Option<String>,
        /// Object id of the principal
        #[arg(long, value_name = "ID")]
        principal: Option<String>,
        #[command(flatten)]
        server: RoleServer,
    },
}

/// A server, and how to print.
#[derive(Debug, Args)]
pub(crate) struct RoleServer {
    #[command(flatten)]
    remote: RemoteArguments,
    #[command(flatten)]
    print: PrintArguments,
}

/// A role to create.
#[derive(Debug, Args)]
pub(crate) struct NewRole {
    /// Its name
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    name: Option<String>,
    /// Data actions that it permits, with commas between: readMetadata, items/read, containers/*, …
    #[arg(long, value_delimiter = ',', value_name = "NAMES", required_unless_present = "file")]
    actions: Vec<String>,
    /// Scopes at which it may be assigned, with commas between
    #[arg(long, value_delimiter = ',', value_name = "PATHS", default_value = "/")]
    assignable_scopes: Vec<String>,
    /// The definition as JSON, as the service's tools take it; - is standard input
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    server: RoleServer,
}

pub(crate) fn run(command: &RoleCommand) -> Result<()> {
    match command {
        RoleCommand::List { assignments, server } => list(*assignments, server),
        RoleCommand::Show { role, server } => {
            let mut remote = server.remote.connect()?;
            let path = format!("{DEFINITIONS}/{}", find(&mut remote, role)?);
            let found = must(&mut remote, "GET", &path, &[], b"")?;
            Print::new(server.print).body(&found.body)
        }
        RoleCommand::Create(new) => {
            let body = new.definition()?.to_json();
            let mut remote = new.server.remote.connect()?;
            let made = must(&mut remote, "POST", DEFINITIONS, &[JSON], body.as_bytes())?;
            Print::new(new.server.print).body(&made.body)
        }
        RoleCommand::Delete { role, yes, server } => {
            let mut remote = server.remote.connect()?;
            let id = find(&mut remote, role)?;
            confirm::delete(&format!("role '{role}'"), *yes)?;
            must(&mut remote, "DELETE", &format!("{DEFINITIONS}/{id}"), &[], b"")?;
            eprintln!("Role '{role}' is deleted.");
            Ok(())
        }
        RoleCommand::Assign { role, principal, scope, server } => {
            let mut remote = server.remote.connect()?;
            let mut body = Object::new();
            body.set("id", Uuid::new_v4().to_string().into());
            body.set("roleDefinitionId", find(&mut remote, role)?.into());
            body.set("principalId", principal.as_str().into());
            body.set("scope", scope.as_str().into());
            let body = Value::object(body).to_json();
            let made = must(&mut remote, "POST", ASSIGNMENTS, &[JSON], body.as_bytes())?;
            Print::new(server.print).body(&made.body)
        }
        RoleCommand::Revoke { assignment, principal, server } => {
            revoke(assignment.as_deref(), principal.as_deref(), server)
        }
    }
}

fn list(assignments: bool, server: &RoleServer) -> Result<()> {
    let mut remote = server.remote.connect()?;
    if assignments {
        let all = list_all(&mut remote, ASSIGNMENTS, "RoleAssignments")?;
        let columns = ["id", "roleDefinitionId", "principalId", "scope"];
        return Print::new(server.print).resources(&all, &columns);
    }
    let all = list_all(&mut remote, DEFINITIONS, "RoleDefinitions")?;
    Print::new(server.print).resources(&all, &["id", "roleName", "type"])
}

fn revoke(assignment: Option<&str>, principal: Option<&str>, server: &RoleServer) -> Result<()> {
    let mut remote = server.remote.connect()?;
    let ids: Vec<String> = match (assignment, principal) {
        (Some(id), _) => vec![id.to_owned()],
        (None, Some(principal)) => {
            let all = list_all(&mut remote, ASSIGNMENTS, "RoleAssignments")?;
            let has = |one: &&Value| {
                let of = one.get("principalId").as_str();
                of.is_some_and(|of| of.eq_ignore_ascii_case(principal))
            };
            let id = |one: &Value| one.get("id").as_str().map(str::to_owned);
            all.iter().filter(has).filter_map(id).collect()
        }
        (None, None) => return Err(usage("name an assignment, or a principal: --principal ID")),
    };
    for id in &ids {
        must(&mut remote, "DELETE", &format!("{ASSIGNMENTS}/{id}"), &[], b"")?;
    }
    eprintln!("{} assignments are revoked.", ids.len());
    Ok(())
}

/// The id of a role by its id, its name, or a short word for a built-in one.
fn find(remote: &mut Remote, role: &str) -> Result<String> {
    let all = list_all(remote, DEFINITIONS, "RoleDefinitions")?;
    let name = match role.to_ascii_lowercase().as_str() {
        "reader" => "Cosmos DB Built-in Data Reader".to_owned(),
        "contributor" => "Cosmos DB Built-in Data Contributor".to_owned(),
        _ => role.to_owned(),
    };
    let is_it = |one: &&Value| {
        one.get("roleName").as_str() == Some(&*name)
            || one.get("id").as_str().is_some_and(|id| id.eq_ignore_ascii_case(role))
    };
    let found = all.iter().find(is_it).and_then(|one| one.get("id").as_str());
    let found = found.with_context(|| {
        format!("there is no role '{role}'; `orrery role list` prints all of them")
    })?;
    Ok(found.to_owned())
}

impl NewRole {
    /// What is sent: the file, or what the arguments say.
    fn definition(&self) -> Result<Value> {
        if let Some(file) = &self.file {
            return json_input::object_in(file);
        }
        let texts = |list: Vec<String>| Value::array(list.into_iter().map(Value::from).collect());
        let actions = self.actions.iter().map(|action| whole_action(action)).collect();
        let mut permission = Object::new();
        permission.set("dataActions", texts(actions));
        let mut body = Object::new();
        body.set("id", Uuid::new_v4().to_string().into());
        body.set("roleName", self.name.as_deref().unwrap_or_default().into());
        body.set("type", "CustomRole".into());
        body.set("assignableScopes", texts(self.assignable_scopes.clone()));
        body.set("permissions", Value::array(vec![Value::object(permission)]));
        Ok(Value::object(body))
    }
}

/// The name of an action without what all of them begin with may be given.
fn whole_action(action: &str) -> String {
    const ACCOUNT: &str = "Microsoft.DocumentDB/databaseAccounts/";
    if action.starts_with(ACCOUNT) {
        return action.to_owned();
    }
    match action {
        "readMetadata" => format!("{ACCOUNT}{action}"),
        _ if action.starts_with("sqlDatabases/") => format!("{ACCOUNT}{action}"),
        _ if action.starts_with("containers/") => format!("{ACCOUNT}sqlDatabases/{action}"),
        _ => format!("{ACCOUNT}sqlDatabases/containers/{action}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_may_be_given_without_its_beginning() {
        let whole = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read";
        for short in ["items/read", "containers/items/read", whole] {
            assert_eq!(whole_action(short), whole);
        }
        assert_eq!(
            whole_action("readMetadata"),
            "Microsoft.DocumentDB/databaseAccounts/readMetadata"
        );
    }
}
