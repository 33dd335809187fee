//! Where the password of a store comes from if its address has none.

use std::path::{Path, PathBuf};

use postgres::Config;
use postgres::config::Host;

use crate::address::home_file;
use crate::schema::PostgresOpenError;

/// The password of the given file, of `PGPASSWORD`, or of a file in the format of `libpq`: the one that the address
/// names, `PGPASSFILE`, or `~/.pgpass`. None is no error: the server may ask for none.
pub(crate) fn find(
    config: &Config,
    given: Option<&Path>,
    list: Option<PathBuf>,
) -> Result<Option<String>, PostgresOpenError> {
    if let Some(file) = given {
        let text = read(file)?;
        let password = text.lines().next().unwrap_or_default();
        if password.is_empty() {
            return Err(failed(file, "it is empty"));
        }
        return Ok(Some(password.to_owned()));
    }
    if let Ok(password) = std::env::var("PGPASSWORD") {
        return Ok(Some(password));
    }
    let named = list.or_else(|| std::env::var_os("PGPASSFILE").map(PathBuf::from));
    let file = match named {
        Some(file) => file,
        None => match home_file(".pgpass").filter(|file| file.exists()) {
            Some(file) => file,
            None => return Ok(None),
        },
    };
    is_private(&file)?;
    let text = read(&file)?;
    Ok(text.lines().find_map(|line| matching(line, config)))
}

fn failed(file: &Path, reason: impl std::fmt::Display) -> PostgresOpenError {
    PostgresOpenError::Password(format!("{}: {reason}", file.display()))
}

fn read(file: &Path) -> Result<String, PostgresOpenError> {
    std::fs::read_to_string(file).map_err(|error| failed(file, error))
}

/// `libpq` ignores a list that others may read; here it is an error, so that nobody looks for the reason.
#[cfg(unix)]
fn is_private(file: &Path) -> Result<(), PostgresOpenError> {
    use std::os::unix::fs::PermissionsExt as _;
    let about = std::fs::metadata(file).map_err(|error| failed(file, error))?;
    if about.permissions().mode() % 0o100 == 0 {
        Ok(())
    } else {
        Err(failed(file, "others may read it; chmod 600"))
    }
}

#[cfg(not(unix))]
fn is_private(_: &Path) -> Result<(), PostgresOpenError> {
    Ok(())
}

/// The fields of a line, `host:port:database:user:password`, where a backslash takes a colon or a backslash as it is.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let is_last = fields.len() == 5;
        let Some(field) = fields.last_mut() else { break };
        match c {
            '\\' => field.extend(chars.next()),
            ':' if !is_last => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields
}

/// The password of a line that is about one of the hosts.
fn matching(line: &str, config: &Config) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let fields = fields(line);
    let [host, port, database, user, password] = &fields[..] else { return None };
    let is = |field: &String, value: &str| field == "*" || field == value;
    let own_user = config.get_user().unwrap_or_default();
    let own_database = config.get_dbname().unwrap_or(own_user);
    let ports = config.get_ports();
    let matches = |(nth, own): (usize, &Host)| {
        let own_port = ports.get(nth).or_else(|| ports.first()).copied().unwrap_or(5432);
        let is_host = match own {
            Host::Tcp(name) => is(host, name),
            #[cfg(unix)]
            Host::Unix(folder) => is(host, "localhost") || folder.to_str() == Some(host),
        };
        is_host && is(port, &own_port.to_string())
    };
    let found = config.get_hosts().iter().enumerate().any(matches);
    (found && is(database, own_database) && is(user, own_user)).then(|| password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_is_about_the_host_counts() {
        let config: Config = "postgres://u@db:5433,db2/d".parse().unwrap();
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(matching(line, &config).as_deref(), expected, "{line}");
        };
        check("db:5433:d:u:secret", Some("secret"));
        check("*:*:*:*:a\\:b\\\\c:d", Some("a:b\\c:d"));
        check("db:5432:d:u:secret", None);
        check("db:5433:d:other:secret", None);
        check("db:5433:other:u:secret", None);
        check("# db:5433:d:u:secret", None);
        check("db:5433", None);
        let socket: Config = "host=/run/pg user=u".parse().unwrap();
        assert_eq!(matching("localhost:5432:u:u:x", &socket).as_deref(), Some("x"));
    }

    #[cfg(unix)]
    #[test]
    fn a_list_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let config: Config = "postgres://u@db/d".parse().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "db:*:*:*:secret\n").unwrap();
        let mode = |mode| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            find(&config, None, Some(file.path().to_owned()))
        };
        let error = mode(0o644).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && !error.contains("secret"), "{error}");
        assert_eq!(mode(0o600).unwrap().as_deref(), Some("secret"));
        let given = find(&config, Some(file.path()), None).unwrap();
        assert_eq!(given.as_deref(), Some("db:*:*:*:secret"), "the first line is the password");
        let missing = find(&config, Some(Path::new("/none")), None).unwrap_err();
        assert!(missing.to_string().contains("/none"), "{missing}");
    }
}
