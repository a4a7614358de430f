//! What users read when they get it wrong, one mistake a file, and shapes that must compile.

#[test]
fn each_mistake_is_reported_under_the_users_own_token() {
    trybuild::TestCases::new().compile_fail("tests/ui/*/*.rs");
}

#[test]
fn every_shape_compiles() {
    trybuild::TestCases::new().pass("tests/pass/*.rs");
}
