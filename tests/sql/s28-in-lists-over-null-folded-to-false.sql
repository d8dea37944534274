-- S28, datafusion#24246: IN lists over NULL folded to false/true in a projection.
CREATE TABLE t (i int);
CREATE VIEW v AS select i,i in(1) and i in(2) a,i not in(1) or i not in(2) b from t;
--! +t(NULL) +t(1) +t(2)
--= (1, false, true) (2, false, true) (NULL, NULL, NULL)
