use super::*;
use crate::{
    output::Format,
    testing::shown::{assert_fits, assert_golden, hub, narrow, now, piped, place},
};

async fn of(line: &str) -> Differences {
    let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
    read(&place(&hub()), &words, now()).await.expect(line)
}

#[tokio::test]
async fn fields_are_shown_with_both_values_and_since_when() {
    let differences = of("rp/api").await;
    assert_golden("diff.txt", &piped(&differences));
    assert_eq!(differences.exit(), Exit::Left);
    assert_fits(
        &output::rendered(&differences, Format::Table, &narrow()).expect("it can be printed"),
        40,
    );
    assert_eq!(of("api east").await.objects.len(), 1);
}

#[tokio::test]
async fn where_nothing_differs_nothing_is_to_be_done() {
    for line in ["crp/web", "rp/api west"] {
        let differences = of(line).await;
        assert_eq!(differences.exit(), Exit::Done, "{line}");
        assert!(piped(&differences).starts_with("no difference is known of "), "{line}");
    }
}
