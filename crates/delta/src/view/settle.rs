//! Puts what compaction rewrote, where nothing stands against it.

use std::collections::HashMap;

use lakeward_protocol::ports::Put;
use roaring::RoaringTreemap;
use serde_json::Map;

use super::compact::{Job, Rewritten};
use super::files::LiveFile;
use super::index::Place;
use super::mode::Mode;
use super::sink::View;
use super::vector;
use crate::care::{new_id, touched_since};
use crate::commit::{Notes, Rewrite};
use crate::error::DeltaError;
use crate::layout::{Batch, DataFile};
use crate::table::{Contents, now_ms};

/// A rewrite that fits the newest version.
struct Fit {
    /// Numbers of the sources, in their order; empty where rows are not followed.
    numbers: Vec<u32>,
    /// By file: its rows that died while they were moved.
    dead: Vec<RoaringTreemap>,
}

impl View {
    /// Puts a finished rewrite, or begins one where it is time to.
    pub(super) fn compact(&mut self) -> Result<(), DeltaError> {
        if let Some(rewritten) = self.compactor.take() {
            return self.put_rewritten(rewritten);
        }
        if !self.compactor.is_idle() {
            return Ok(());
        }
        let (chosen, keys) = match self.options.mode {
            Mode::Upsert => match self.compactor.choose(self.state.files.iter().map(|(_, file)| file)) {
                Some(chosen) => (Some(chosen), Some(self.keys.clone())),
                None => return Ok(()),
            },
            Mode::Append | Mode::Changelog if self.compactor.is_time_to_look(self.table.version) => (None, None),
            Mode::Append | Mode::Changelog => return Ok(()),
        };
        let (kernel, layout) = (self.table.kernel.clone(), self.stager.layout.clone());
        let version = match (self.options.mode, self.synced) {
            (Mode::Upsert, Some((_, version))) => version,
            (Mode::Upsert, None) => return Ok(()),
            (Mode::Append | Mode::Changelog, _) => self.table.version,
        };
        self.compactor.start(Job { kernel, layout, version, chosen, keys });
        Ok(())
    }

    fn put_rewritten(&mut self, rewritten: Rewritten) -> Result<(), DeltaError> {
        self.refresh()?;
        let Some(fit) = self.fit(&rewritten)? else {
            tracing::debug!(
                table = self.table.name(),
                "files changed while they were compacted; another try comes later"
            );
            return Ok(());
        };
        let (batch, marked) = self.files_of(&rewritten, &fit)?;
        let current: Vec<LiveFile> = match fit.numbers.is_empty() {
            true => rewritten.sources.clone(),
            false => fit.numbers.iter().map(|number| self.state.files.get(*number).clone()).collect(),
        };
        let removes = current.iter().map(|file| file.remove(now_ms(), false));
        let adds = marked.iter().filter_map(|file| Some(file.add(file.vector.as_ref()?, false)));
        let rewrite = Rewrite {
            actions: removes.chain(adds).collect(),
            touched_files: current.len(),
            deleted_rows: 0,
            is_compaction: true,
        };
        let version = self.table.version + 1;
        let (notes, batch, rewrite) = (&self.own_notes(), Some(&batch), Some(&rewrite));
        let contents = Contents { notes, txns: &[], batch, rewrite, more: &Map::new() };
        match self.table.put_version(version, &contents) {
            Ok(Put::Done) => {
                if self.options.mode == Mode::Upsert {
                    self.moved(&rewritten, &fit, &marked);
                    self.synced = Some((self.table.reopened, version));
                }
                Ok(())
            }
            // If it is there after all, the next offer finds its sources gone.
            Ok(Put::Taken) => {
                self.compactor.put_back(rewritten);
                Ok(())
            }
            Err(error) => {
                self.compactor.put_back(rewritten);
                Err(error)
            }
        }
    }

    /// Does a rewrite still say what the newest version says?
    fn fit(&mut self, rewritten: &Rewritten) -> Result<Option<Fit>, DeltaError> {
        if rewritten.layout.shape() != self.stager.layout.shape() {
            return Ok(None);
        }
        if self.options.mode != Mode::Upsert {
            let fit = Fit { numbers: Vec::new(), dead: vec![RoaringTreemap::new(); rewritten.files.len()] };
            let touched = touched_since(&self.table.kernel, rewritten, self.table.version);
            return Ok((!self.table.runtime.block_on(touched)?).then_some(fit));
        }
        let mut numbers = Vec::with_capacity(rewritten.sources.len());
        for source in &rewritten.sources {
            let Some(number) = self.state.files.number(&source.path) else { return Ok(None) };
            if !source.dead.is_subset(&self.state.files.get(number).dead) {
                return Ok(None);
            }
            numbers.push(number);
        }
        let died = |source: u32, row: u32| {
            let number = numbers[usize::try_from(source).expect("an index")];
            self.state.files.get(number).dead.contains(u64::from(row))
        };
        let dead = rewritten.rows.iter().map(|rows| {
            (0..).zip(rows).filter(|(_, origin)| died(origin.source, origin.row)).map(|(row, _)| row).collect()
        });
        Ok(Some(Fit { dead: dead.collect(), numbers }))
    }

    /// The new files: those that are whole, and all of them with what died in them meanwhile.
    fn files_of(&self, rewritten: &Rewritten, fit: &Fit) -> Result<(Batch, Vec<LiveFile>), DeltaError> {
        let partly = |(file, dead): &(&DataFile, &RoaringTreemap)| !dead.is_empty() && dead.len() < file.num_records;
        let pairs = || rewritten.files.iter().zip(&fit.dead);
        let dead: Vec<_> = pairs().filter(partly).map(|(_, dead)| dead).collect();
        let mut vectors = self.table.runtime.block_on(vector::write(&self.table.kernel, &dead))?.into_iter();
        let marked = pairs().map(|pair| LiveFile {
            vector: if partly(&pair) { vectors.next() } else { None },
            dead: pair.1.clone(),
            ..LiveFile::of(pair.0)
        });
        let marked = marked.collect();
        let whole = pairs().filter(|(_, dead)| dead.is_empty()).map(|(file, _)| file.clone()).collect();
        Ok((Batch { files: whole, ..Batch::default() }, marked))
    }

    /// The rewrite stands: rows are where it put them.
    fn moved(&mut self, rewritten: &Rewritten, fit: &Fit, marked: &[LiveFile]) {
        let mut numbers = HashMap::new();
        for (at, file) in marked.iter().enumerate().filter(|(_, file)| file.dead.len() < file.rows) {
            let number = self.state.files.reserve();
            self.state.files.insert(number, file.clone());
            numbers.insert(at, number);
        }
        for (at, rows) in rewritten.rows.iter().enumerate() {
            for (row, origin) in (0..).zip(rows).filter(|(row, _)| !fit.dead[at].contains(u64::from(*row))) {
                let source = fit.numbers[usize::try_from(origin.source).expect("an index")];
                let (from, to) = (Place { file: source, row: origin.row }, Place { file: numbers[&at], row });
                self.state.index.relocate(origin.digest, from, to);
            }
        }
        for number in &fit.numbers {
            self.state.files.remove(*number);
        }
    }

    fn own_notes(&self) -> Notes {
        Notes {
            commit_id: new_id(),
            app_id: self.table.app_id.clone(),
            view: Some(self.view_note(None, 0)),
            ..Notes::default()
        }
    }
}
