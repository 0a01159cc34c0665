//! Assigns rows to one side of the split: training or validation.
//!
//! Whatever may share content is on one side: the runs of a session, the sessions that they quote, and all sessions of
//! a project. These are joined into groups, and a hash of the group decides. So a group is on the side that it was on
//! when an earlier data set was made, unless something joined it to another.

use std::collections::HashMap;

/// Groups of sessions and projects.
#[derive(Debug, Default)]
pub(super) struct SplitGroups {
    /// The nodes of sessions and projects, by the hash of the name.
    by_hash: HashMap<u64, u32>,
    /// The parent of each node, and the rank by which the root of its group is chosen.
    nodes: Vec<(u32, u64)>,
}

/// A thing that is joined to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKind {
    Session,
    Project,
}

impl SplitGroups {
    /// The node of a session or a project.
    pub(super) fn node(&mut self, kind: NodeKind, name: &str) -> u32 {
        let hash = hash(kind, name);
        let next = self.nodes.len() as u32;
        let node = *self.by_hash.entry(hash).or_insert(next);
        if node == next {
            // A project decides before any of its sessions does: more of them do not change the side.
            let rank = match kind {
                NodeKind::Project => hash >> 1,
                NodeKind::Session => hash | 1 << 63,
            };
            self.nodes.push((node, rank));
        }
        node
    }

    /// Puts one into the group of a session or a project.
    pub(super) fn join_named(&mut self, node: u32, kind: NodeKind, name: &str) {
        let other = self.node(kind, name);
        self.join(node, other);
    }

    /// Puts two into one group.
    pub(super) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let (first, second) =
            if self.nodes[a as usize].1 <= self.nodes[b as usize].1 { (a, b) } else { (b, a) };
        self.nodes[second as usize].0 = first;
    }

    /// Returns the node that stands for the group of a node.
    pub(super) fn root(&mut self, node: u32) -> u32 {
        let mut node = node as usize;
        while self.nodes[node].0 as usize != node {
            let above = self.nodes[node].0 as usize;
            self.nodes[node].0 = self.nodes[above].0;
            node = self.nodes[node].0 as usize;
        }
        node as u32
    }

    /// Returns true if a group is for validation, of which there shall be about so many hundredths of a percent.
    pub(super) fn is_validation(&mut self, node: u32, hundredths: u32) -> bool {
        let root = self.root(node) as usize;
        // Spread once more: ranks begin with what kind they are of.
        let drawn = self.nodes[root].1.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        drawn * 10_000 < u64::from(hundredths) << 32
    }
}

fn hash(kind: NodeKind, name: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(match kind {
        NodeKind::Session => b"session\0",
        NodeKind::Project => b"project\0",
    });
    hasher.update(name.as_bytes());
    let bytes = hasher.finalize();
    bytes.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_on_one_side_and_about_as_much_as_asked_is_for_validation() {
        let mut groups = SplitGroups::default();
        let mut nodes = Vec::new();
        for n in 0..2000 {
            let session = groups.node(NodeKind::Session, &format!("s{n}"));
            let project = groups.node(NodeKind::Project, &format!("p{}", n % 1000));
            groups.join(session, project);
            nodes.push((session, project));
        }
        let validation = nodes.iter().filter(|(session, _)| groups.is_validation(*session, 1000)).count();
        assert!((120..280).contains(&validation), "{validation} of 2000");
        for n in 0..1000 {
            let sides =
                [nodes[n].0, nodes[n].1, nodes[n + 1000].0].map(|node| groups.is_validation(node, 1000));
            assert!(sides.iter().all(|side| *side == sides[0]));
        }
    }
}
