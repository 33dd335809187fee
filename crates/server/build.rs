//! Tells cargo that the embedded page is part of a release build. A debug build reads the page from
//! its folder when it is asked for it, so there nothing needs to be compiled anew.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rerun-if-changed=../../explorer/dist");
    }
}
