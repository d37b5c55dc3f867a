use super::*;
use crate::{
    output::Format,
    testing::shown::{assert_fits, assert_golden, hub, narrow, now, piped, place},
};

#[tokio::test]
async fn everything_that_belongs_to_a_placement_stands_below_it() {
    let server = hub();
    for (line, golden) in [("crp/web", "tree.txt"), ("crp/pay", "tree-run.txt")] {
        let tree = read(&place(&server), &[line.to_owned()], now()).await.expect(line);
        assert_golden(golden, &piped(&tree));
        assert_fits(&output::rendered(&tree, Format::Table, &narrow()).expect(line), 40);
    }
    let tree = read(&place(&server), &["web".to_owned()], now())
        .await
        .expect("it is there");
    assert!(
        tree.names().contains(&"work/web-work -n fleet-member-east".to_owned()),
        "{:?}",
        tree.names()
    );
    let missing = read(&place(&server), &["crp/none".to_owned()], now()).await;
    assert!(missing.is_err_and(|error| error.to_string() == "there is no crp/none"));
}
