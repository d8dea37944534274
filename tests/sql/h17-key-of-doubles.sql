-- Both zeros are one key, and so are all NaNs.
CREATE TABLE u (k DOUBLE PRIMARY KEY, v INT);
CREATE VIEW v AS SELECT k, v FROM u;
--! ^u(0.0,1) ^u('-0.0',2) ^u('NaN',3) ^u('NaN',4)
--= (0.0, 2) (NaN, 4)
--! ~u('-0.0') ^u('inf',5)
--= (NaN, 4) (inf, 5)
