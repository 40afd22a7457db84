//! The keys that a folder generates, and the file that has them.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn generated_keys_survive_a_restart() {
    let spec = |generation: u32| {
        format!(
            "apiKeys: [{{name: a, generate: {{}}}}, {{name: b, generate: {{rotationGeneration: {generation}}}}}]"
        )
    };
    let mut case = Case::with(&[("a.yaml", &tenant("acme", &spec(1)))]);
    let first = case.load();
    let first = of(&first, "acme");
    let uid: Vec<&str> = first.runtime.config.uid.split('-').collect();
    assert_eq!(uid.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(uid[2].starts_with('4') && uid[3].starts_with(['8', '9', 'a', 'b']), "a random UUID: {uid:?}");
    assert_eq!(first.api_keys[0].1.len(), 64);
    let written = fs::read(case.keys("ACME")).unwrap();
    case.restart();
    let again = case.load();
    let again = of(&again, "acme");
    assert_eq!((&again.runtime.config, &again.api_keys), (&first.runtime.config, &first.api_keys));
    assert_eq!(fs::read(case.keys("ACME")).unwrap(), written, "and nothing is written");

    case.write("a.yaml", &tenant("acme", &spec(2)));
    let rotated = case.load();
    let rotated = of(&rotated, "acme");
    assert_eq!(rotated.api_keys[0], first.api_keys[0]);
    assert_ne!(rotated.api_keys[1], first.api_keys[1]);
    assert_eq!(rotated.runtime.config.tokens, first.runtime.config.tokens);
    case.write("a.yaml", &tenant("acme", &spec(1)));
    assert_eq!(
        of(&case.load(), "acme").api_keys,
        rotated.api_keys,
        "lowering the number brings nothing back"
    );
}

#[test]
fn removed_key_is_not_restored() {
    let spec = "apiKeys: [{name: a, generate: {}}]";
    let mut case = Case::with(&[("a.yaml", &tenant("acme", spec))]);
    let first = of(&case.load(), "acme").api_keys.clone();
    case.write("a.yaml", &tenant("acme", ""));
    assert_eq!(of(&case.load(), "acme").runtime.config.api_keys, []);
    case.write("a.yaml", &tenant("acme", spec));
    assert_ne!(of(&case.load(), "acme").api_keys, first);
}

#[test]
fn key_file_is_readable_by_its_owner_only() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    case.load();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = case.keys("ACME");
    assert_eq!(mode(&file), 0o600);
    for dir in file.ancestors().skip(1).take(3) {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[test]
fn damaged_keys_are_reported_and_never_overwritten() {
    let mut case = Case::with(&[("a.yaml", &(tenant("acme", "") + &tenant("globex", "")))]);
    let uid = of(&case.load(), "acme").runtime.config.uid.clone();
    let good = fs::read_to_string(case.keys("ACME")).unwrap();
    let message = "config/a.yaml, document 1 (Tenant default/acme): data/tenants/ACME/keys.json is damaged; restore it, \
                   or remove it to generate new keys (the old ones and all sessions end)";
    for damaged in [
        "",
        "{}",
        "{\"hunter2\": 1}",
        &good[..good.len() / 2],
        &good.replace("\"kid\": \"", "\"kid\": 1, \"x\": \""),
    ] {
        fs::write(case.keys("ACME"), damaged).unwrap();
        let loaded = case.load();
        assert_eq!(case.texts(&loaded), [message]);
        assert_eq!(of(&loaded, "acme").runtime.config.uid, uid, "the tenant is still served");
        assert_eq!(fs::read_to_string(case.keys("ACME")).unwrap(), damaged);
    }
    case.restart();
    let loaded = case.load();
    assert_eq!((case.texts(&loaded), names(&loaded)), (vec![message.to_owned()], vec!["globex"]));
    fs::write(case.keys("ACME"), good).unwrap();
    assert_eq!(of(&case.load(), "acme").runtime.config.uid, uid);
}

#[test]
fn keys_of_a_tenant_are_never_given_to_another() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    case.load();
    case.restart();
    case.write("a.yaml", &tenant("acme", "").replace("name: acme}\n", "name: thief}\n"));
    let loaded = case.load();
    let message = "config/a.yaml, document 1 (Tenant default/thief): data/tenants/ACME/keys.json belongs to Tenant \
                   default/acme; choose another clientCode, or move its folder away";
    assert_eq!((case.texts(&loaded), names(&loaded)), (vec![message.to_owned()], vec![]));
}

#[test]
fn unusable_data_folder_is_reported() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    fs::create_dir_all(case.root.join("data")).unwrap();
    symlink("nowhere/at/all", case.root.join("data/tenants")).unwrap();
    let loaded = case.load();
    let message = "config/a.yaml, document 1 (Tenant default/acme): data/tenants/ACME/keys.json cannot be written: File \
                   exists (os error 17)";
    assert_eq!(case.texts(&loaded), [message]);
}

#[test]
fn debug_prints_no_key() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", "apiKeys: [{name: a, generate: {}}]"))]);
    let loaded = case.load();
    let shown = format!("{loaded:?} {:?}", case.folder);
    assert!(!shown.contains(&of(&loaded, "acme").api_keys[0].1), "{shown}");
}

#[test]
fn processes_that_start_at_once_have_the_same_keys() {
    let case = Case::with(&[("a.yaml", &tenant("acme", "apiKeys: [{name: one, generate: {}}]"))]);
    let keys = std::thread::scope(|scope| {
        let load = || {
            let mut folder = Folder::new(case.root.join("config"), case.root.join("data"));
            folder.load(&mut random()).unwrap().tenants[0].api_keys.clone()
        };
        let begun: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
        begun.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(keys.iter().all(|other| *other == keys[0]));
}
