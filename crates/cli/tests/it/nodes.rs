//! The nodes of a store, over HTTP and from the shell. A server in memory has its store to itself.

use crate::client::Client;
use crate::process::{Running, orrery};

#[test]
fn a_server_with_a_store_of_its_own_lists_no_nodes() {
    let server = Running::start(&["serve", "--memory", "--listen", "127.0.0.1:0", "--no-tls"]);
    let mut client = Client::open(server.address(), &server.key()).unwrap();
    let listed = client.must("GET", "/_orrery/nodes", &[], "").body;
    assert_eq!(listed, r#"{"shared":false,"nodes":[]}"#);
    let (endpoint, key) = (format!("http://{}", server.address()), server.key());
    let output = orrery(&["nodes", "--endpoint", &endpoint, "--key", &key]).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    assert!(String::from_utf8(output.stderr).unwrap().contains("its store to itself"));
}
