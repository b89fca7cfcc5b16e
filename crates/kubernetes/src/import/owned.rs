//! Objects that another object of the file made, such as the Pods of a Job in `kubectl get all`: they are
//! part of that one, and no job of their own.

use super::object::ImportedObject;

/// Notes on each object that another one of the text controls which it is, and returns a flag for each
/// object: true if it is such a part.
pub(super) fn parts(objects: &mut [ImportedObject]) -> Vec<bool> {
    let owners: Vec<Option<String>> =
        objects.iter().map(|object| owner(object, objects).map(ImportedObject::title)).collect();
    for (object, owner) in objects.iter_mut().zip(&owners) {
        let Some(owner) = owner else { continue };
        for at in object.children("") {
            if !["/apiVersion", "/kind", "/status"].contains(&at.as_str()) {
                object.near(&at, &format!("a part of {owner}, which made it"));
            }
        }
    }
    owners.iter().map(Option::is_some).collect()
}

/// Returns the object of the text that controls another one.
fn owner<'a>(part: &ImportedObject, objects: &'a [ImportedObject]) -> Option<&'a ImportedObject> {
    let mut references = part.children("/metadata/ownerReferences").into_iter();
    let at = references.find(|at| part.is_set(&format!("{at}/controller")))?;
    let field = |name: &str| part.peek_text(&format!("{at}/{name}"));
    let namespace =
        |object: &ImportedObject| object.peek_text("/metadata/namespace").map(str::to_owned);
    objects.iter().find(|object| {
        object.peek_text("/apiVersion") == field("apiVersion")
            && Some(object.kind()) == field("kind")
            && Some(object.name()) == field("name")
            && namespace(object) == namespace(part)
    })
}
