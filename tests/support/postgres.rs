//! A Postgres of this test binary's own, from the distribution's packages.
//!
//! Owns one server per binary: its files under the temporary directory, no TCP port, a Unix socket. A small
//! shell stands between: it stops the server and removes the files as soon as this process ends, however it
//! ends. Postgres refuses to run as root, so root hands it to the user `postgres`, else `nobody`.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

/// A running server.
pub struct Server {
    directory: PathBuf,
    databases: AtomicU32,
    // Holds the pipe whose end tells the shell to stop the server.
    _keeper: Child,
}

/// The server shared by the tests of this binary, started by the first that asks; or why there is none.
/// Under `TPO_REQUIRE_ALL=1` there must be one.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Result<Server, String>> = OnceLock::new();
    available(SHARED.get_or_init(Server::start).as_ref())
}

/// A server for one test alone, which may change its settings.
pub fn own() -> Option<Server> {
    match Server::start() {
        Ok(server) => Some(server),
        Err(why) => available(Err(&why)),
    }
}

fn available<T>(server: Result<T, &String>) -> Option<T> {
    match server {
        Ok(server) => Some(server),
        Err(why) if std::env::var("TPO_REQUIRE_ALL").is_ok_and(|all| all == "1") => {
            panic!("store/postgres must not be skipped: {why}")
        }
        Err(why) => {
            // On a line of its own, whatever the test runner has left on this one.
            println!("\nSKIPPED store/postgres: {why}");
            None
        }
    }
}

impl Server {
    fn start() -> Result<Self, String> {
        let binaries = binaries().ok_or("no initdb and pg_ctl on PATH or under /usr/lib/postgresql")?;
        let directory = std::env::temp_dir().join(format!("tpo-pg-{}", uuid::Uuid::new_v4().simple()));
        let io = |error: io::Error| format!("{}: {error}", directory.display());
        fs::create_dir(&directory).map_err(io)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).map_err(io)?;
        let user = unprivileged();
        if let Some((uid, gid)) = user {
            chown(&directory, Some(uid), Some(gid)).map_err(io)?;
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SCRIPT, "sh"])
            .arg(&binaries)
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .current_dir(&directory);
        if let Some((uid, gid)) = user {
            shell.uid(uid).gid(gid);
        }
        let mut keeper = shell.spawn().map_err(io)?;
        let mut said = String::new();
        if let Some(stdout) = keeper.stdout.take() {
            io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut said).map_err(io)?;
        }
        if said.trim() != "ready" {
            let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
            fs::remove_dir_all(&directory).map_err(io)?;
            return Err(format!("the server did not start: {}", log.trim()));
        }
        Ok(Self {
            directory,
            databases: AtomicU32::new(0),
            _keeper: keeper,
        })
    }

    /// Where the server's socket is.
    pub fn socket(&self) -> PathBuf {
        self.directory.join(".s.PGSQL.5432")
    }

    /// How its superuser connects.
    pub fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.directory)
            .port(5432)
            .username("postgres")
            .database(database)
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        let socket = self.directory.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{socket}:5432/{database}")
    }

    /// Kills it, with every connection, and starts it again over the same files.
    pub fn restart(&self) {
        let mut command = Command::new(binaries().unwrap().join("pg_ctl"));
        command
            .args(["restart", "--mode", "immediate", "--wait", "--silent", "--pgdata"])
            .arg(self.directory.join("data"))
            .arg("--log")
            .arg(self.directory.join("log"))
            .current_dir(&self.directory);
        if let Some((uid, gid)) = unprivileged() {
            command.uid(uid).gid(gid);
        }
        assert!(command.status().unwrap().success());
    }

    /// Whether transactions may write, from now on and on every connection: a server that has become a standby takes
    /// no writes.
    pub async fn take_writes(&self, writes: bool) {
        let off = [("default_transaction_read_only", "off")];
        let mut connection = self.options("postgres").options(off).connect().await.unwrap();
        let read_only = if writes { "off" } else { "on" };
        let change = format!("ALTER SYSTEM SET default_transaction_read_only = {read_only}");
        for statement in [change.as_str(), "SELECT pg_reload_conf()"] {
            let statement = AssertSqlSafe(statement.to_owned());
            sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    }

    /// Makes an empty database; its name.
    pub async fn database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.run("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"))
            .await;
        name
    }

    /// Runs one statement as the superuser.
    pub async fn run(&self, database: &str, statement: &str) {
        let mut connection = self.options(database).connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    }
}

/// Says "ready" once the server answers, then waits for the end of its input. Nothing is synced: the data
/// need not survive this test.
const SCRIPT: &str = r#"
bin=$1; dir=$2
"$bin/initdb" -D "$dir/data" -U postgres --auth=trust --no-sync -E UTF8 --locale=C >"$dir/log" 2>&1 || exit 1
"$bin/postgres" -D "$dir/data" -k "$dir" -p 5432 -c listen_addresses= -c fsync=off -c synchronous_commit=off \
    -c full_page_writes=off -c shared_buffers=16MB -c max_connections=200 -c timezone=Asia/Kathmandu \
    >>"$dir/log" 2>&1 </dev/null &
server=$!
trap '' INT TERM HUP
while kill -0 "$server" 2>/dev/null; do
    "$bin/pg_isready" -q -h "$dir" -p 5432 && { echo ready; break; }
    sleep 0.05
done
exec >/dev/null
cat >/dev/null
# Perhaps another one by now: the tests may have started it again.
"$bin/pg_ctl" stop --mode fast --wait --silent --pgdata "$dir/data" 2>/dev/null
wait "$server"
rm -rf "$dir"
"#;

/// Where Postgres' programs are.
fn binaries() -> Option<PathBuf> {
    let has = |directory: &Path| directory.join("initdb").exists() && directory.join("pg_isready").exists();
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|directory| has(directory))
        .collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|directory| has(directory))
        .or_else(|| found.pop())
}

/// Who runs the server when this process is root.
fn unprivileged() -> Option<(u32, u32)> {
    let id = |args: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(args).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    if id(&["-u"])? != 0 {
        return None;
    }
    ["postgres", "nobody"]
        .iter()
        .find_map(|user| Some((id(&["-u", user])?, id(&["-g", user])?)))
}
