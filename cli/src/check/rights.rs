//! Whether agents may do what they have to, as their API server sees it.

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};

/// A right: verb, group, and the resource with its subresource.
pub(super) type Right = (&'static str, &'static str, &'static str);

/// Those of these rights that a user lacks in a namespace, or everywhere if none is named.
pub(super) async fn missing(
    client: &Client,
    user: &str,
    namespace: Option<&str>,
    rights: &[Right],
) -> kube::Result<Vec<String>> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let asked = rights.iter().map(|right| {
        let review = review(user, namespace, *right);
        let reviews = reviews.clone();
        async move {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let is_allowed = answer.status.is_some_and(|status| status.allowed);
            let (verb, _, resource) = right;
            Ok::<_, kube::Error>((!is_allowed).then(|| format!("{verb} {resource}")))
        }
    });
    Ok(try_join_all(asked).await?.into_iter().flatten().collect())
}

fn review(user: &str, namespace: Option<&str>, (verb, group, resource): Right) -> SubjectAccessReview {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (resource, None),
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}
