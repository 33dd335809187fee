//! Hashes against the vectors that the SDKs test themselves with.

use super::*;

fn component(json: &str) -> KeyComponent {
    if json == "undefined" {
        return KeyComponent::Undefined;
    }
    let value = crate::Value::parse(json.as_bytes()).expect(json);
    KeyComponent::from_value(&value).expect(json)
}

fn hash(kind: PartitionKeyKind, version: u8, values: &[&str]) -> String {
    let paths = Vec::new();
    let definition = PartitionKeyDef { paths, kind, version, system_key: false };
    let key = PartitionKey(values.iter().map(|v| component(v)).collect());
    definition.effective(&key).to_string()
}

#[test]
fn hashes_agree_with_the_vectors_of_the_sdks() {
    let check = |value: &str, v1: &str, v2: &str| {
        if !v1.is_empty() {
            assert_eq!(hash(PartitionKeyKind::Hash, 1, &[value]), v1, "V1 of {value}");
        }
        assert_eq!(hash(PartitionKeyKind::Hash, 2, &[value]), v2, "V2 of {value}");
    };
    check("undefined", "05C1D529E345DC00", "11622DAA78F835834610ABE56EFF5CB5");
    check("null", "05C1ED45D7475601", "378867E4430E67857ACE5C908374FE16");
    check("false", "05C1DB857D857C02", "2FE1BE91E90A3439635E0E9E37361EF2");
    check("true", "05C1D7C5A903D803", "0E711127C5B5A8E4726AC6DD306A3E59");
    check("0", "05C1BF6DA11560058000", "155B95BEDAC4B1E9EC1CDC9BB0DDDE58");
    check("1", "05C1ED172B6B2605BFF0", "20CD98B339BA78A5D0CF6953B87070B0");
    check("-1", "05C1D1A5BDDF9C054010", "19938E7A936C1C5B9E3AE842BBC16839");
    check("5", "05C1D9C1C5517C05C014", "19C08621B135968252FB34B4CF66F811");
    check("-128", "05C1D73349F54C053FA0", "01DAEDABF913540367FE219B2AD06148");
    check("2147483647", "05C1E1F503DFB205C1DFFFFFFFFC", "2D9349D64712AEB5EB1406E2F0BE2725");
    check("5.123124190509124", "", "0EF2E2D82460884AF0F6440BE4F726A8");
    check(
        "1.7976931348623157e308",
        "05C1CBE367C53005FFEFFFFFFFFFFFFFFE",
        "31424D996457102634591FF245DBCC4D",
    );
    check(r#""""#, "05C1CF33970FF80800", "32E9366E637A71B4E710384B2F4970A0");
    check(r#""a""#, "05C1D78593652C086200", "3A5381E1114EB8D3FCC90795045B49B7");
    check(r#""redmond""#, "05C1EFE313830C087366656E706F6500", "22E342F38A486A088463DFF7838A5963");
    check(
        r#""partitionKey""#,
        "05C1E1B3D9CD2608716273756A756A706F4C667A00",
        "013AEFCF77FA271571CF665A58C933F1",
    );
    check(r#""é""#, "05C1B3CD91912008C4AA00", "007199F104E04116EE25AF912CA4889B");
    check(
        &format!("\"{}\"", "a".repeat(1024)),
        &format!("05C1EB5921F70608{}00", "62".repeat(100)),
        "332BDF5512AE49615F32C7D98C2DB86C",
    );
}

#[test]
fn several_values_hash_together_or_level_by_level() {
    assert_eq!(
        hash(PartitionKeyKind::Hash, 2, &["5", r#""redmond""#, "true", "null"]),
        "3032DECBE2AB1768D8E0AEDEA35881DF"
    );
    assert_eq!(
        hash(PartitionKeyKind::MultiHash, 2, &[r#""a""#, "1", "true"]),
        "3A5381E1114EB8D3FCC90795045B49B7\
         20CD98B339BA78A5D0CF6953B87070B0\
         0E711127C5B5A8E4726AC6DD306A3E59"
    );
}

#[test]
fn hex_text_reads_back_in_either_case() {
    assert_eq!(EffectiveKey::parse("3a53"), Some(EffectiveKey(vec![0x3a, 0x53])));
    assert_eq!(EffectiveKey::parse(""), Some(EffectiveKey::min()));
    assert_eq!(EffectiveKey::parse("FF"), Some(EffectiveKey::max()));
    assert!(EffectiveKey::parse("F").is_none() && EffectiveKey::parse("zz").is_none());
    assert!(EffectiveKey::parse("é").is_none() && EffectiveKey::parse("+1").is_none());
}

#[test]
fn a_prefix_covers_its_keys_and_nothing_else() {
    let path = |p| crate::PropertyPath::parse(p).expect(p);
    let definition = PartitionKeyDef {
        paths: vec![path("/a"), path("/b")],
        kind: PartitionKeyKind::MultiHash,
        version: 2,
        system_key: false,
    };
    let key = |text| PartitionKey::parse_header(text).expect(text);
    let prefix = definition.range_of(&key(r#"["x"]"#));
    assert!(prefix.contains(&definition.effective(&key(r#"["x",1]"#))));
    assert!(!prefix.contains(&definition.effective(&key(r#"["y",1]"#))));
    let point = definition.range_of(&key(r#"["x",1]"#));
    assert!(point.contains(&definition.effective(&key(r#"["x",1]"#))));
    assert!(!point.contains(&definition.effective(&key(r#"["x",2]"#))));
    assert_eq!(prefix.intersect(&KeyRange::full()), Some(prefix.clone()));
    assert_eq!(point.intersect(&prefix), Some(point));
}

#[test]
fn even_ranges_tile_the_space() {
    for (version, count) in [(2, 1), (2, 2), (2, 3), (2, 7), (1, 3)] {
        let paths = vec![crate::PropertyPath::parse("/a").expect("path")];
        let kind = PartitionKeyKind::Hash;
        let definition = PartitionKeyDef { paths, kind, version, system_key: false };
        let ranges = definition.even_ranges(count);
        assert_eq!(ranges.len(), count as usize);
        assert_eq!(ranges[0].min, EffectiveKey::min());
        assert_eq!(ranges[ranges.len() - 1].max, EffectiveKey::max());
        assert!(ranges.windows(2).all(|w| w[0].max == w[1].min && w[0].min < w[0].max));
        let mut hits = vec![0; ranges.len()];
        for i in 0..1000 {
            let key = PartitionKey(vec![KeyComponent::Number(f64::from(i))]);
            let effective = definition.effective(&key);
            hits[ranges.iter().position(|r| r.contains(&effective)).expect("a range")] += 1;
        }
        let least = 1000 / count / 2;
        assert!(hits.iter().all(|h| *h > least), "{hits:?}");
    }
}

#[test]
fn even_ranges_end_where_the_services_end() {
    let ends = |kind, version, count| {
        let definition = PartitionKeyDef { paths: vec![], kind, version, system_key: false };
        let ranges = definition.even_ranges(count);
        let inner = ranges[..ranges.len() - 1].iter().map(|range| range.max.to_string());
        inner.collect::<Vec<_>>().join(" ")
    };
    let (hash, multi) = (PartitionKeyKind::Hash, PartitionKeyKind::MultiHash);
    // As the SDKs' own tests have them.
    assert_eq!(ends(multi, 2, 2), "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF");
    assert_eq!(
        ends(hash, 2, 4),
        "0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF 1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFE \
         2FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFD"
    );
    assert_eq!(ends(hash, 1, 3), "05C1D5AB55AB54 05C1E5AB55AB54");
    // The hashes 33333333, 66666666, 99999999 and CCCCCCCC.
    assert_eq!(ends(hash, 1, 5), "05C1C9CD673398 05C1D9CD673398 05C1E399CD6732 05C1E9CD673398");
}

#[test]
fn the_middle_of_a_range_has_as_many_hashes_on_either_side() {
    let definition =
        |kind, version| PartitionKeyDef { paths: vec![], kind, version, system_key: false };
    let two = definition(PartitionKeyKind::Hash, 2);
    let middle = |min: &str, max: &str| {
        let key = |hex: &str| EffectiveKey::parse(hex).expect("hex");
        two.middle(&KeyRange { min: key(min), max: key(max) }).map(|key| key.to_string())
    };
    assert_eq!(middle("", "FF").as_deref(), Some("20000000000000000000000000000000"));
    assert_eq!(middle("20", "FF").as_deref(), Some("30000000000000000000000000000000"));
    assert_eq!(middle("10", "11").as_deref(), Some("10800000000000000000000000000000"));
    assert_eq!(middle("41", "43").as_deref(), Some("42000000000000000000000000000000"));
    let last = "00FF00000000000000000000000000FF";
    assert_eq!(middle(last, &format!("{last}00")), None, "one key has no middle");
    let one = definition(PartitionKeyKind::Hash, 1);
    for definition in [&two, &one] {
        for range in definition.even_ranges(4) {
            let share = definition.share(&range);
            assert!((share - 0.25).abs() < 0.001, "{share}");
        }
    }
    let [first, second] = &one.even_ranges(2)[..] else { panic!("two ranges") };
    let middle = one.middle(&KeyRange::full()).expect("a middle");
    let near = |key: &EffectiveKey| first.min < *key && second.min.0[..4] == key.0[..4];
    assert!(near(&middle), "{middle} is about {}", second.min);
}

#[test]
fn a_range_of_one_key_is_told_from_others() {
    let key = |hex: &str| EffectiveKey::parse(hex).expect("hex");
    let one = |min: &str, max: &str| KeyRange { min: key(min), max: key(max) }.is_of_one_key();
    let hash = "2F442D3F30B24D244283F3B36B4CB8FF";
    assert!(one(hash, &format!("{hash}FF")));
    assert!(one(hash, "2F442D3F30B24D244283F3B36B4CB900"));
    assert!(!one(hash, "2F442D3F30B24D244283F3B36B4CB901"));
    assert!(!one("1F", "20"));
    assert!(!one("", "FF"));
    assert!(!one(&"FF".repeat(16), &"00".repeat(16)[..2]));
}
