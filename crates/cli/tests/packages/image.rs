//! The image, unpacked by its own descriptors and entered as its own user. It has no shell, so the job is
//! the program itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::clean_root::CleanRoot;
use crate::files;

/// Layout of an image in a folder.
struct Layout {
    folder: tempfile::TempDir,
}

impl Layout {
    fn unpack() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--file"]).arg(files::ending_in(".oci.tar"));
        files::run(tar.arg("--directory").arg(folder.path()));
        Self { folder }
    }

    fn document(&self, path: &str) -> Value {
        serde_json::from_slice(&fs::read(self.folder.path().join(path)).unwrap()).unwrap()
    }

    /// Returns the path of a blob, after a check of its size and sum.
    fn blob(&self, descriptor: &Value) -> String {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = format!("blobs/sha256/{digest}");
        let file = self.folder.path().join(&path);
        assert_eq!(fs::metadata(&file).unwrap().len(), descriptor["size"].as_u64().unwrap());
        assert_eq!(sum(&file), digest);
        path
    }
}

fn sum(file: &Path) -> String {
    let line = files::run(Command::new("sha256sum").arg(file));
    line.split_whitespace().next().unwrap().to_owned()
}

#[test]
#[ignore = "needs packages and root; `cargo xtask packages` makes them"]
fn the_image_is_whole_and_its_user_runs_a_job() {
    let layout = Layout::unpack();
    assert_eq!(layout.document("oci-layout")["imageLayoutVersion"], "1.0.0");
    let index = layout.document("index.json");
    let manifest = layout.document(&layout.blob(&index["manifests"][0]));
    let config = layout.document(&layout.blob(&manifest["config"]));
    let root = CleanRoot::empty();
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), config["rootfs"]["diff_ids"].as_array().unwrap().len());
    for (layer, id) in layers.iter().zip(config["rootfs"]["diff_ids"].as_array().unwrap()) {
        let packed = layout.folder.path().join(layout.blob(layer));
        let plain = layout.folder.path().join("layer.tar");
        let unzip = format!("gzip -dc {} > {}", packed.display(), plain.display());
        files::run(Command::new("sh").args(["-c", &unzip]));
        assert_eq!(format!("sha256:{}", sum(&plain)), id.as_str().unwrap());
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--same-owner", "--preserve-permissions", "--file"]).arg(&plain);
        files::run(tar.arg("--directory").arg(root.path()));
    }
    let user = config["config"]["User"].as_str().unwrap();
    let user = format!("--userspec={user}");
    let muster = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        root.run(&[&user], &words)
    };
    let version = format!("muster {}", files::VERSION);
    assert_eq!(muster("muster --version").trim(), version);
    let job = "muster run --gpus 2 --time 12h --virtual-gpus 8 --follow -- muster --version";
    assert!(muster(job).contains(&version));
}
