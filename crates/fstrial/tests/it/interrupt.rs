//! Ctrl-C and its relatives: the partial answer within seconds, and nothing left.
