//! A table's protocol and metadata as one value: read from a snapshot, made into a layout, grown by
//! columns, and put into a commit.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_schema::Schema;
use delta_kernel::Snapshot;
use lakeward_protocol::position::Shape;
use serde_json::{Value, json};

use crate::error::DeltaError;
use crate::features::{self, Needs};
use crate::grow::{self, Names};
use crate::layout::{Description, Layout, LayoutParts, StatsColumns};
use crate::mapping::{self, Mapping};
use crate::rules::Rules;
use crate::schema::TableSchema;
use crate::store::Place;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    place: Place,
    pub id: String,
    name: Option<String>,
    description: Option<String>,
    provider: String,
    format_options: BTreeMap<String, String>,
    schema: TableSchema,
    partition_columns: Vec<String>,
    pub properties: BTreeMap<String, String>,
    created_ms: Option<i64>,
    versions: (i32, i32),
    /// Every feature that the protocol lists, ascending.
    pub features: Vec<String>,
    /// Columns that files are clustered by: paths of the names that files have.
    clustering: Vec<Vec<String>>,
}

/// `delta.clustering`: what the table is clustered by.
pub(crate) const CLUSTERING_DOMAIN: &str = "delta.clustering";

/// The property that tells the highest id of a column.
const HIGHEST_ID: &str = "delta.columnMapping.maxColumnId";

const WIDENING_PROPERTY: &str = "delta.enableTypeWidening";

impl Metadata {
    /// Reads and checks it. `clustering` is the configuration of [`CLUSTERING_DOMAIN`], where there is one.
    ///
    /// # Errors
    /// The table needs what we do not do.
    pub(crate) fn of(place: &Place, snapshot: &Snapshot, clustering: Option<&str>) -> Result<Self, DeltaError> {
        let configuration = snapshot.table_configuration();
        let (protocol, metadata) = (configuration.protocol(), configuration.metadata());
        let lists = [protocol.reader_features(), protocol.writer_features()];
        let mut features: Vec<String> = lists.into_iter().flatten().flatten().map(ToString::to_string).collect();
        features.sort();
        features.dedup();
        let own = |map: &std::collections::HashMap<String, String>| {
            map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let read = Self {
            place: place.clone(),
            id: metadata.id().to_owned(),
            name: metadata.name().map(str::to_owned),
            description: metadata.description().map(str::to_owned),
            provider: metadata.format_provider().to_owned(),
            format_options: own(metadata.format_options()),
            schema: parse_schema(place, metadata.schema_string(), &features)?,
            partition_columns: metadata.partition_columns().to_vec(),
            properties: own(metadata.configuration()),
            created_ms: metadata.created_time(),
            versions: (protocol.min_reader_version(), protocol.min_writer_version()),
            features,
            clustering: clustering.map(|text| clustering_columns(place, text)).transpose()?.unwrap_or_default(),
        };
        features::check(&Needs {
            table: &place.name,
            min_writer_version: read.versions.1,
            features: &read.features,
            properties: &read.properties,
            schema: &read.schema,
        })?;
        Ok(read)
    }

    /// What files are written for.
    ///
    /// # Errors
    /// Properties or fields that contradict themselves.
    pub(crate) fn layout(self: &Arc<Self>) -> Result<Layout, DeltaError> {
        let place = &self.place;
        let mode = Mapping::of(&self.properties);
        let physical = match mode {
            Mapping::None => None,
            Mapping::Names => Some(mapping::physical(&self.schema).map_err(|reason| self.broken(reason))?),
        };
        let description = Description {
            physical,
            clustering: self.clustering.clone(),
            lengths: features::lengths(&self.schema),
            rules: Arc::new(Rules::of(&self.schema, &self.properties).map_err(|reason| self.broken(reason))?),
            metadata: Some(Arc::clone(self)),
        };
        let layout = Layout::from(LayoutParts {
            table: place.name.clone(),
            shape: self.shape(),
            schema: self.schema.arrow().clone(),
            partition_columns: self.partition_columns.clone(),
            stats_columns: stats_columns(place, &self.properties)?,
            partition_columns_in_files: self.has("materializePartitionColumns"),
            store: place.store.clone(),
            root: place.root.clone(),
        });
        Ok(layout.described(description))
    }

    fn shape(&self) -> Shape {
        let mut hasher = DefaultHasher::new();
        (&self.id, self.schema.to_json(), &self.partition_columns, &self.properties).hash(&mut hasher);
        (self.versions, &self.features, &self.clustering).hash(&mut hasher);
        Shape(hasher.finish())
    }

    pub(crate) fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|name| name == feature)
    }

    /// May a column's type become a wider one? Not where an expression of the table's is made for the type.
    pub(crate) fn widens(&self, rules: &Rules) -> bool {
        let on = self.properties.get(WIDENING_PROPERTY).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        on && self.has("typeWidening") && rules.is_empty()
    }

    /// May a new column have this name?
    pub(crate) fn takes_name(&self, name: &str) -> bool {
        mapping::takes_name(Mapping::of(&self.properties), name)
    }

    /// The same table with the columns and types of `wanted`, which has all of ours.
    ///
    /// # Errors
    /// Something that a table can't become.
    pub(crate) fn grown(&self, wanted: &Schema) -> Result<Self, DeltaError> {
        let mut grown = self.clone();
        let mapped = Mapping::of(&self.properties) != Mapping::None;
        let highest = self.properties.get(HIGHEST_ID).map_or(Ok(0), |text| text.trim().parse::<i64>());
        let highest = highest.map_err(|_| self.broken(format!("its property {HIGHEST_ID} is no number")))?;
        let mut names = if mapped { Names::Mapped { highest } } else { Names::Plain };
        grown.schema = grow::grown(&self.schema, wanted, &mut names)
            .map_err(|reason| DeltaError::Schema { place: format!("table {}", self.place.name), reason })?;
        if let Names::Mapped { highest } = names {
            grown.properties.insert(HIGHEST_ID.to_owned(), highest.to_string());
        }
        Ok(grown)
    }

    /// The `metaData` action.
    pub(crate) fn action(&self) -> Value {
        let mut metadata = json!({
            "id": self.id,
            "format": {"provider": self.provider, "options": self.format_options},
            "schemaString": self.schema.to_json(),
            "partitionColumns": self.partition_columns,
            "configuration": self.properties,
        });
        let more = [
            ("name", self.name.as_ref().map(|name| json!(name))),
            ("description", self.description.as_ref().map(|text| json!(text))),
            ("createdTime", self.created_ms.map(|at| json!(at))),
        ];
        for (key, value) in more {
            if let Some(value) = value {
                metadata[key] = value;
            }
        }
        json!({ "metaData": metadata })
    }

    fn broken(&self, reason: String) -> DeltaError {
        DeltaError::Broken { table: self.place.name.clone(), reason }
    }
}

/// A type that we do not know is refused by its feature's name where it has one.
fn parse_schema(place: &Place, text: &str, features: &[String]) -> Result<TableSchema, DeltaError> {
    TableSchema::parse(&place.name, text)
        .map_err(|error| features::refusal_by_name(&place.name, features).unwrap_or(error))
}

fn clustering_columns(place: &Place, text: &str) -> Result<Vec<Vec<String>>, DeltaError> {
    let columns = serde_json::from_str::<Value>(text).ok().and_then(|mut json| {
        let columns = json.get_mut("clusteringColumns")?.take();
        serde_json::from_value(columns).ok()
    });
    columns.ok_or_else(|| DeltaError::Broken {
        table: place.name.clone(),
        reason: format!("its domain {CLUSTERING_DOMAIN} names no columns: {text}"),
    })
}

fn stats_columns(place: &Place, properties: &BTreeMap<String, String>) -> Result<StatsColumns, DeltaError> {
    let bad = |key: &str, value: &str| DeltaError::Broken {
        table: place.name.clone(),
        reason: format!("its property {key} = {value:?} makes no sense; set or unset it with ALTER TABLE"),
    };
    let key = "delta.dataSkippingStatsColumns";
    if let Some(value) = properties.get(key) {
        return split_columns(value).map(StatsColumns::Only).ok_or_else(|| bad(key, value));
    }
    let key = "delta.dataSkippingNumIndexedCols";
    match properties.get(key).map(|value| (value, value.trim().parse::<i64>())) {
        None => Ok(StatsColumns::First(32)),
        Some((_, Ok(-1))) => Ok(StatsColumns::All),
        Some((value, Ok(count))) => Ok(StatsColumns::First(u64::try_from(count).map_err(|_| bad(key, value))?)),
        Some((value, Err(_))) => Err(bad(key, value)),
    }
}

/// `a, b.c, `odd.name`` into paths of names; a backtick is doubled within backticks.
fn split_columns(text: &str) -> Option<Vec<Vec<String>>> {
    let (mut columns, mut path, mut name) = (Vec::new(), Vec::new(), String::new());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '`' if quoted && rest.peek() == Some(&'`') => name.extend(rest.next()),
            '`' => quoted = !quoted,
            '.' | ',' if !quoted => {
                path.push(std::mem::take(&mut name));
                if c == ',' {
                    columns.push(std::mem::take(&mut path));
                }
            }
            c if c.is_whitespace() && !quoted => {}
            c => name.push(c),
        }
    }
    path.push(name);
    columns.push(path);
    (!quoted && columns.iter().flatten().all(|name| !name.is_empty())).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_lists_split() {
        #[rustfmt::skip] // columns: text, paths joined by / and columns by |
        let cases = [
            ("id",             Some("id")),
            ("id, a.b",        Some("id|a/b")),
            ("`a.b`,`c``d`.e", Some("a.b|c`d/e")),
            ("",               None),
            ("a,,b",           None),
            ("`a",             None),
        ];
        for (text, expected) in cases {
            let columns = split_columns(text)
                .map(|columns| columns.iter().map(|path| path.join("/")).collect::<Vec<_>>().join("|"));
            assert_eq!(columns.as_deref(), expected, "{text}");
        }
    }
}
