//! Which changes of the files are seen, and when.

use super::*;

#[test]
fn change_is_seen_once_it_has_settled() {
    let mut case = Case::with(&[("a.yaml", &tenant("acme", ""))]);
    assert!(case.folder.changed(), "nothing is loaded yet");
    case.load();
    assert!(!case.folder.changed());
    case.write("a.yaml", "");
    assert!(!case.folder.changed(), "a file is being written");
    case.write("a.yaml", &tenant("acme", "suspend: true"));
    assert!(!case.folder.changed(), "it differs from what was seen before");
    assert!(case.folder.changed());
    assert!(case.folder.changed(), "until it is loaded");
    case.load();
    assert!(!case.changed());
}

#[test]
fn every_kind_of_change_is_seen() {
    type Change = fn(&Case);
    let changes: [(&str, Change); 6] = [
        ("rename over", |case| {
            let modified = fs::metadata(case.path("a.yaml")).unwrap().modified().unwrap();
            case.write("new", "a: 2\n");
            fs::File::options().write(true).open(case.path("new")).unwrap().set_modified(modified).unwrap();
            fs::rename(case.path("new"), case.path("a.yaml")).unwrap();
        }),
        ("new file", |case| case.write("b.yml", "")),
        ("same size", |case| {
            let modified = fs::metadata(case.path("a.yaml")).unwrap().modified().unwrap();
            case.write("a.yaml", "a: 2\n");
            // The kernel's clock for files has ticks of some milliseconds, so two writes of a test may have the same time.
            let later = modified + Duration::from_nanos(1);
            fs::File::options().write(true).open(case.path("a.yaml")).unwrap().set_modified(later).unwrap();
        }),
        ("rename", |case| fs::rename(case.path("a.yaml"), case.path("c.yaml")).unwrap()),
        ("delete", |case| fs::remove_file(case.path("a.yaml")).unwrap()),
        ("dangling link", |case| symlink("nowhere", case.path("d.yaml")).unwrap()),
    ];
    for (name, change) in changes {
        let mut case = Case::with(&[("a.yaml", "a: 1\n")]);
        case.load();
        change(&case);
        assert!(case.changed(), "{name}");
        case.load();
        assert!(!case.changed(), "{name}");
    }
}

#[test]
fn update_of_a_kubernetes_volume_is_seen() {
    let mut case = Case::new();
    let version = |case: &Case, number: u32, text: &str| {
        fs::create_dir(case.path(&format!("..{number}"))).unwrap();
        case.write(&format!("..{number}/a.yaml"), text);
        symlink(format!("..{number}"), case.path("..new")).unwrap();
        fs::rename(case.path("..new"), case.path("..data")).unwrap();
    };
    version(&case, 1, &tenant("acme", ""));
    symlink("..data/a.yaml", case.path("a.yaml")).unwrap();
    assert_eq!(names(&case.load()), ["acme"]);
    version(&case, 2, &tenant("acmf", ""));
    assert!(case.changed());
    assert_eq!(names(&case.load()), ["acmf"]);
}
