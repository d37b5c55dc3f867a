use super::*;
use crate::{
    output::Format,
    testing::shown::{assert_fits, assert_golden, hub, narrow, now, piped, place},
};

#[tokio::test]
async fn events_about_others_of_the_same_name_are_left_out() {
    let server = hub();
    let of = async |line: &str| read(&place(&server), &[line.to_owned()], now()).await.expect(line);
    let events = of("crp/web").await;
    assert_golden("events.txt", &piped(&events));
    assert_fits(
        &output::rendered(&events, Format::Table, &narrow()).expect("it can be printed"),
        40,
    );
    assert!(piped(&of("deployment/web").await).contains("of somebody else"));
    assert_eq!(
        piped(&of("membercluster/east").await),
        "no Events (they are kept for an hour)\n"
    );
}
