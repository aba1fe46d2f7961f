//! Which arms begin with one and the same prepared filesystem.

use fstrial_model::{arm::Arm, state::State, trial::Trial};

/// The arms that begin with one and the same filesystem, by index, and the state it is in.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// At least one.
    pub arms: Vec<usize>,
    pub state: State,
}

/// What makes two filesystems alike before a load: arms that differ in their queue only share one.
fn is_alike(a: &Arm, b: &Arm) -> bool {
    a.place == b.place
        && a.filesystem == b.filesystem
        && a.mkfs == b.mkfs
        && a.profile == b.profile
        && a.mount_options() == b.mount_options()
}

/// The filesystems that are prepared, each with its arms. None if every run makes its own.
pub fn shared(trial: &Trial) -> Vec<Shared> {
    let mut all: Vec<Shared> = Vec::new();
    if !trial.restores() {
        return all;
    }
    for (index, arm) in trial.arms.iter().enumerate() {
        let Some(state) = trial.state_of(arm) else { continue };
        let fits = |shared: &&mut Shared| shared.state == state && is_alike(&trial.arms[shared.arms[0]], arm);
        match all.iter_mut().find(fits) {
            Some(shared) => shared.arms.push(index),
            None => all.push(Shared { arms: vec![index], state }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(arms: &[&str], state: Option<&str>) -> Vec<(Vec<usize>, String)> {
        let mut trial =
            Trial { arms: arms.iter().map(|arm| arm.parse().unwrap()).collect(), ..Trial::default() };
        trial.trial.state = state.map(|state| state.parse().unwrap());
        shared(&trial).into_iter().map(|shared| (shared.arms, shared.state.to_string())).collect()
    }

    #[test]
    fn arms_that_are_made_alike_share_a_filesystem() {
        assert_eq!(groups(&["ext4", "xfs"], None), []);
        assert_eq!(
            groups(&["a=ext4", "b=ext4:scheduler=none", "ext4:noatime", "raw"], Some("aged")),
            [(vec![0, 1], "aged:70%".into()), (vec![2], "aged:70%".into())]
        );
        // A fresh arm next to an aged one is prepared and put back as well.
        assert_eq!(
            groups(&["ext4", "ext4:state=filled:80%", "xfs:state=fresh"], None),
            [(vec![0], "fresh".into()), (vec![1], "filled:80%".into()), (vec![2], "fresh".into())]
        );
    }
}
