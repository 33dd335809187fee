//! The table of paths, by names and by rids.

use super::*;

fn name(text: &str) -> Address {
    Address::Name(text.to_owned())
}

fn container() -> ContainerAddress {
    ContainerAddress { database: name("db1"), container: name("c1") }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "the cases read better without &")]
fn check(path: &str, target: Target, signed_type: &str, signed_link: &str) {
    let link = ResourceLink::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(link.target, target, "{path}");
    assert_eq!(link.signed_type, signed_type, "{path}");
    assert_eq!(link.signed_link, signed_link, "{path}");
}

#[test]
fn every_named_path_has_its_target_and_signed_strings() {
    let user = || UserAddress { database: name("db1"), user: name("u") };
    let c = "dbs/db1/colls/c1";
    check("/", Target::Account, "", "");
    check("", Target::Account, "", "");
    check("/dbs", Target::Databases, "dbs", "");
    check("/dbs/db1", Target::Database(name("db1")), "dbs", "dbs/db1");
    check("/dbs/db1/colls", Target::Containers(name("db1")), "colls", "dbs/db1");
    check("/dbs/db1/colls/c1", Target::Container(container()), "colls", c);
    check("/dbs/db1/colls/c1/docs", Target::Items(container()), "docs", c);
    check(
        "/dbs/db1/colls/c1/docs/a%20b",
        Target::Item(container(), name("a b")),
        "docs",
        "dbs/db1/colls/c1/docs/a b",
    );
    check("/dbs/db1/colls/c1/pkranges", Target::Ranges(container()), "pkranges", c);
    check("/dbs/db1/colls/c1/conflicts", Target::Conflicts(container()), "conflicts", c);
    for (word, kind) in [
        ("sprocs", ScriptKind::Procedure),
        ("triggers", ScriptKind::Trigger),
        ("udfs", ScriptKind::Udf),
    ] {
        check(&format!("/{c}/{word}"), Target::Scripts(container(), kind), word, c);
        let target = Target::Script(container(), kind, name("S"));
        check(&format!("/{c}/{word}/S"), target, word, &format!("{c}/{word}/S"));
    }
    check(
        "/dbs/db1/colls/c1/operations/partitionkeydelete",
        Target::PartitionKeyDelete(container()),
        "colls",
        c,
    );
    check("/dbs/db1/users", Target::Users(name("db1")), "users", "dbs/db1");
    check("/dbs/db1/users/u", Target::User(user()), "users", "dbs/db1/users/u");
    check("/dbs/db1/users/u/permissions", Target::Permissions(user()), "permissions", {
        "dbs/db1/users/u"
    });
    check(
        "/dbs/db1/users/u/permissions/p",
        Target::Permission(user(), name("p")),
        "permissions",
        "dbs/db1/users/u/permissions/p",
    );
    check(
        "/dbs/db1/clientencryptionkeys/k",
        Target::EncryptionKey(name("db1"), name("k")),
        "clientencryptionkeys",
        "dbs/db1/clientencryptionkeys/k",
    );
    check("/offers", Target::Offers, "offers", "");
    check("/dbs/db1/_model", Target::Model(name("db1")), "_model", "dbs/db1");
    let statistics = "_orrery/statistics";
    check("/_orrery/statistics", Target::Statistics, "_orrery", statistics);
    check("/_orrery/tasks", Target::Tasks, "_orrery", "_orrery/tasks");
    check("/_orrery/nodes", Target::Nodes, "_orrery", "_orrery/nodes");
    check("/dbs/db1/_advisor", Target::Advisor(name("db1")), "_advisor", "dbs/db1");
    check(
        "/dbs/db1/colls/c1/docs/i/attachments/a",
        Target::Attachment(container(), name("i"), "a".into()),
        "attachments",
        "dbs/db1/colls/c1/docs/i/attachments/a",
    );
}

#[test]
fn a_path_by_rids_signs_one_rid_in_lower_case() {
    let db = Rid::Database(0x0100_0000);
    let coll = Rid::Container { database: 0x0100_0000, container: 1 };
    let item = Rid::Child { database: 0x0100_0000, container: 1, kind: ChildKind::Item, number: 7 };
    let owner = || ContainerAddress { database: Address::Rid(db), container: Address::Rid(coll) };
    assert_eq!((db.to_string(), coll.to_string()), ("AQAAAA==".into(), "AQAAAIAAAAE=".into()));
    check(
        "/dbs/AQAAAA==/colls/AQAAAIAAAAE=/pkranges",
        Target::Ranges(owner()),
        "pkranges",
        "aqaaaiaaaae=",
    );
    check(
        "/dbs/AQAAAA%3D%3D/colls/AQAAAIAAAAE%3d/pkranges/",
        Target::Ranges(owner()),
        "pkranges",
        "aqaaaiaaaae=",
    );
    check(
        &format!("/dbs/{db}/colls/{coll}/docs/{item}"),
        Target::Item(owner(), Address::Rid(item)),
        "docs",
        &item.to_string().to_lowercase(),
    );
    check(
        &format!("/dbs/{db}/colls/{coll}/operations/partitionkeydelete"),
        Target::PartitionKeyDelete(owner()),
        "colls",
        "aqaaaiaaaae=",
    );
    check("/dbs/AQAAAA==", Target::Database(Address::Rid(db)), "dbs", "aqaaaa==");
    check("/offers/Xy12", Target::Offer("Xy12".parse().unwrap()), "offers", "xy12");
}

#[test]
fn trailing_slashes_and_query_strings_change_nothing() {
    let c = "dbs/db1/colls/c1";
    check("/dbs/db1/colls/c1/docs/", Target::Items(container()), "docs", c);
    check("/dbs/db1/colls/c1/docs///?x=/y/", Target::Items(container()), "docs", c);
    check("/?x=1", Target::Account, "", "");
}

#[test]
fn words_are_told_apart_by_position() {
    check("/dbs/colls", Target::Database(name("colls")), "dbs", "dbs/colls");
    let odd = ContainerAddress { database: name("dbs"), container: name("docs") };
    check("/dbs/dbs/colls/docs/docs", Target::Items(odd), "docs", "dbs/dbs/colls/docs");
    let plus = ContainerAddress { database: name("a+b"), container: name("é") };
    check("/dbs/a+b/colls/%C3%A9", Target::Container(plus), "colls", "dbs/a+b/colls/é");
}

#[test]
fn the_undecoded_link_is_kept_only_where_it_differs() {
    let link = ResourceLink::parse("/dbs/a%20b").unwrap();
    assert_eq!(link.signed_link_raw.as_deref(), Some("dbs/a%20b"));
    assert_eq!(ResourceLink::parse("/dbs/ab").unwrap().signed_link_raw, None);
}

#[test]
fn what_is_no_path_is_not_found() {
    let foreign = Rid::Container { database: 9, container: 1 };
    let paths = [
        "/favicon.ico",
        "/addresses/x",
        "/dbs//colls",
        "/dbs/db1/tables",
        "/dbs/db1/colls/c1/docs/i/attachments/a/x",
        "/dbs/db1/colls/c1/docs/i/things",
        "/dbs/AQAAAA==/colls/c1",
        "/dbs/AQAAAA==/colls/AQAAAIAAAAE=/docs/AQAAAIAAAAE=",
        &format!("/dbs/AQAAAA==/colls/{foreign}"),
        "/offers/not-a-rid",
        "/DBS",
    ];
    for path in paths {
        assert_eq!(ResourceLink::parse(path), Err(Error::NotFound), "{path}");
    }
}

#[test]
fn addresses_are_resolved_and_signed_as_what_they_are_of() {
    for path in ["/addresses/?", "//addresses/?", "/addresses?", "//addresses?"] {
        let master = format!("{path}$filter=protocol%20eq%20rntbd&$resolveFor=dbs");
        let link = ResourceLink::parse(&master).expect(&master);
        assert_eq!(link.target, Target::Addresses(AddressesOf::Master));
        assert_eq!((&*link.signed_type, &*link.signed_link), ("dbs", ""));
        let ranges = format!(
            "{path}$resolveFor=dbs%2FAQAAAA==%2fcolls%2fAQAAAIAAAAE%3d%2Fdocs\
             &$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds=0,17%2C3"
        );
        let link = ResourceLink::parse(&ranges).expect(&ranges);
        let Target::Addresses(AddressesOf::Container(at, ids)) = link.target else {
            panic!("{ranges}");
        };
        assert_eq!(
            at.container,
            Address::Rid(Rid::Container { database: 0x0100_0000, container: 1 })
        );
        assert_eq!(ids, "0,17,3");
        assert_eq!((&*link.signed_type, &*link.signed_link), ("docs", "aqaaaiaaaae="));
    }
}

#[test]
fn addresses_of_nothing_are_refused() {
    for path in ["/addresses", "//addresses/", "/addresses/?$filter=protocol%20eq%20rntbd"] {
        let error = ResourceLink::parse(path).unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains("$resolveFor")), "{path}");
    }
    let unknown = "/addresses/?$resolveFor=tables";
    assert_eq!(ResourceLink::parse(unknown), Err(Error::NotFound));
}

#[test]
fn a_broken_percent_encoding_is_named() {
    for path in ["/dbs/%", "/dbs/%4", "/dbs/%zz", "/dbs/%ff", "/dbs/x/colls/%c3%28"] {
        let error = ResourceLink::parse(path).unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains('%')), "{path}: {error}");
    }
}

#[test]
fn a_question_mark_belongs_to_the_id_of_an_item() {
    let item = |path: &str| {
        let link = ResourceLink::parse(path).expect(path);
        let Target::Item(_, Address::Name(id)) = link.target else { panic!("{path}") };
        (id, link.signed_link)
    };
    let check = |path: &str, id: &str| {
        assert_eq!(item(path), (id.to_owned(), format!("dbs/d/colls/c/docs/{id}")), "{path}");
    };
    check("/dbs/d/colls/c/docs/a?b", "a?b");
    check("/dbs/d/colls/c/docs/a?", "a?");
    check("/dbs/d/colls/c/docs/a%20b?c/d%3F", "a b?c/d?");
    check("/dbs/d/colls/c/docs/a/?b", "a");
    check("/dbs/d/colls/c/docs/a%2Fb%09%0D%0A%5C%23%25%20", "a/b\t\r\n\\#% ");
    let feed = ResourceLink::parse("/dbs/d/colls/c/docs?a").expect("a feed");
    assert!(matches!(feed.target, Target::Items(_)));
}
