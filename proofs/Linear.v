(** Numbers of which only a part is known: a value and multiples of unknowns, each any number from 0 on.

    The checker of certificates computes with them (titan/sync/open_numbers.py): one run of the interpreter
    is a run for each value of the unknowns, because what it computes is right for each. What a division
    leaves open is an unknown of its own, the quotient; the remainder can be compared, and no more. Where the
    answer is not the same for all there is none. *)

From Coq Require Import Bool ZArith Znumtheory Lia List.
From Titan Require Import Expression.
Import ListNotations.
Open Scope Z_scope.
Open Scope bool_scope.

Inductive unknown :=
| Free (x : nat)
| Quotient (rest : Z) (l : list (unknown * Z)) (divisor : Z).

Record linear := Linear { known : Z; terms : list (unknown * Z) }.   (* an unknown, and its factor *)

(** An unknown, and a sum of them, for some values of those that are free. *)
Fixpoint worth (u : nat -> Z) (x : unknown) : Z :=
  match x with
  | Free x => u x
  | Quotient rest l divisor =>
    (rest + (fix sum l := match l with [] => 0 | (x, f) :: l => f * worth u x + sum l end) l) / divisor
  end.

Fixpoint sum (u : nat -> Z) (l : list (unknown * Z)) : Z :=
  match l with [] => 0 | (x, f) :: l => f * worth u x + sum u l end.

(** The number for some values of the unknowns. *)
Definition value_at (u : nat -> Z) (a : linear) : Z := known a + sum u (terms a).

(** The same unknown, and one that is from 0 on. *)
Fixpoint alike (x y : unknown) : bool :=
  match x, y with
  | Free x, Free y => (x =? y)%nat
  | Quotient a l k, Quotient b m j =>
    (a =? b) && (k =? j) &&
    (fix all l m := match l, m with
                    | [], [] => true
                    | (x, f) :: l, (y, g) :: m => alike x y && (f =? g) && all l m
                    | _, _ => false
                    end) l m
  | _, _ => false
  end.

Fixpoint high (x : unknown) : bool :=
  match x with
  | Free _ => true
  | Quotient a l k =>
    (0 <=? a) && (0 <? k) &&
    (fix all l := match l with [] => true | (x, f) :: l => (0 <=? f) && high x && all l end) l
  end.

(** *** Sums and multiples *)

Fixpoint plus_term (x : unknown) (f : Z) (l : list (unknown * Z)) : list (unknown * Z) :=
  match l with
  | [] => if f =? 0 then [] else [(x, f)]
  | (y, g) :: l => if alike x y then if f + g =? 0 then l else (x, f + g) :: l
                   else (y, g) :: plus_term x f l
  end.

Definition plus (a b : linear) : linear :=
  Linear (known a + known b) (fold_right (fun t l => plus_term (fst t) (snd t) l) (terms a) (terms b)).

Definition scaled (k : Z) (a : linear) : linear :=
  if k =? 0 then Linear 0 [] else Linear (k * known a) (map (fun t => (fst t, k * snd t)) (terms a)).

Definition minus (a b : linear) : linear := plus a (scaled (-1) b).

Definition plain (a : linear) : option Z := match terms a with [] => Some (known a) | _ => None end.

Definition product (a b : linear) : option linear :=
  match plain a, plain b with
  | Some k, _ => Some (scaled k b)
  | _, Some k => Some (scaled k a)
  | _, _ => None
  end.

(** *** Quotients and remainders *)

Definition even (k : Z) (l : list (unknown * Z)) : bool := forallb (fun t => snd t mod k =? 0) l.
Definition each (g : Z -> Z) (l : list (unknown * Z)) := map (fun t : unknown * Z => (fst t, g (snd t))) l.

(** What is left of a number when all of it that divides evenly is taken away. *)
Definition left_of (a : linear) (k : Z) : linear := Linear (known a mod k) (each (fun f => f mod k) (terms a)).

Definition quotient (a : linear) (k : Z) : option linear :=
  if k =? 0 then None
  else let whole := each (fun f => f / k) (terms a) in
       if even k (terms a) then Some (Linear (known a / k) whole)
       else if k <? 0 then None
       else Some (Linear (known a / k)
                         (plus_term (Quotient (known a mod k) (terms (left_of a k)) k) 1 whole)).

(** A number, or the remainder of one by a number. *)
Inductive open := Number (a : linear) | Rest (a : linear) (k : Z).

Definition remainder (a : linear) (k : Z) : option open :=
  if k =? 0 then None
  else if even k (terms a) then Some (Number (Linear (known a mod k) []))
  else if k <? 0 then None else Some (Rest (left_of a k) k).

Definition divided (a b : open) : option open :=
  match a, b with
  | Number a, Number b => match plain b with Some k => option_map Number (quotient a k) | None => None end
  | _, _ => None
  end.

Definition modulo (a b : open) : option open :=
  match b with
  | Number b => match plain b, a with
                | Some d, Number a => remainder a d
                | Some d, Rest a k => if (0 <? d) && (0 <? k) && (k mod d =? 0) then remainder a d else None
                | None, _ => None
                end
  | Rest _ _ => None
  end.

(** *** Comparisons: of one answer for all unknowns *)

Definition negative (a : linear) : option bool :=
  if (known a <? 0) && forallb (fun t => (snd t <=? 0) && high (fst t)) (terms a) then Some true
  else if (0 <=? known a) && forallb (fun t => (0 <=? snd t) && high (fst t)) (terms a) then Some false
  else None.

Definition below (a b : open) : option bool :=
  match a, b with
  | Number a, Number b => negative (minus a b)
  | Rest _ k, Number b =>
    match plain b with
    | Some n => if (0 <? k) && (k <=? n) then Some true
                else if (0 <? k) && (n <=? 0) then Some false else None
    | None => None
    end
  | Number a, Rest _ k =>
    match plain a with
    | Some n => if (0 <? k) && (n <? 0) then Some true
                else if (0 <? k) && (k - 1 <=? n) then Some false else None
    | None => None
    end
  | Rest _ _, Rest _ _ => None
  end.

Definition not_above (a b : open) : option bool := option_map negb (below b a).

Definition same (a b : open) : option bool :=
  match a, b with
  | Rest a k, Rest b j =>
    if (0 <? k) && (k =? j) && even k (terms (minus a b)) then Some (known (minus a b) mod k =? 0) else None
  | _, _ => match not_above a b, not_above b a with
            | Some true, Some true => Some true
            | Some false, _ | _, Some false => Some false
            | _, _ => None
            end
  end.

Definition number (b : bool) : open := Number (Linear (truth b) []).

Definition on_numbers (g : linear -> linear -> option linear) (a b : open) : option open :=
  match a, b with Number a, Number b => option_map Number (g a b) | _, _ => None end.

Definition operated (o : operator) (a b : open) : option open :=
  match o with
  | Add => on_numbers (fun a b => Some (plus a b)) a b
  | Sub => on_numbers (fun a b => Some (minus a b)) a b
  | Mul => on_numbers product a b
  | Div => divided a b
  | Mod => modulo a b
  | Min => option_map (fun c : bool => if c then a else b) (not_above a b)
  | Max => option_map (fun c : bool => if c then b else a) (not_above a b)
  | Lt => option_map number (below a b)
  | Le => option_map number (not_above a b)
  | Eq => option_map number (same a b)
  | Ne => option_map (fun c => number (negb c)) (same a b)
  | Ge => option_map number (not_above b a)
  | Gt => option_map number (below b a)
  | And | Or => None
  end.

Definition is_zero (a : open) : option bool := same a (Number (Linear 0 [])).

Fixpoint computed (env : nat -> linear) (e : expression) : option open :=
  match e with
  | Constant v => Some (Number (Linear v []))
  | Name x => Some (Number (env x))
  | Not e => match computed env e with Some a => option_map number (is_zero a) | None => None end
  | Binary o l r =>
    match computed env l with
    | None => None
    | Some a =>
      match o with
      | And | Or =>
        match is_zero a with
        | None => None
        | Some z =>
          if match o with And => z | _ => negb z end then Some (number (negb z))
          else match computed env r with
               | Some b => option_map (fun y => number (negb y)) (is_zero b)
               | None => None
               end
        end
      | _ => match computed env r with Some b => operated o a b | None => None end
      end
    end
  end.

(** *** Each is right for all unknowns *)

Section Values.
Variable u : nat -> Z.
Hypothesis from_zero : forall x, 0 <= u x.

Lemma worth_quotient a l k : worth u (Quotient a l k) = (a + sum u l) / k.
Proof.
  cbn [worth]. do 2 f_equal. induction l as [|[x f] l IH]; cbn [sum]; [easy|]. now rewrite IH.
Qed.

Lemma alike_worth : forall x y, alike x y = true -> worth u x = worth u y.
Proof.
  fix IH 1. intros [x|a l k] [y|b m j]; cbn [alike]; try easy.
  - intros H. apply Nat.eqb_eq in H. now subst.
  - intros H. apply andb_true_iff in H as [H L]. apply andb_true_iff in H as [A K].
    apply Z.eqb_eq in A, K. subst. rewrite !worth_quotient. do 2 f_equal. revert m L.
    induction l as [|[x f] l IHl]; intros [|[y g] m]; try easy. intros L.
    apply andb_true_iff in L as [H L]. apply andb_true_iff in H as [X F]. apply Z.eqb_eq in F. subst.
    cbn [sum]. now rewrite (IH x y X), (IHl m L).
Qed.

Lemma high_worth : forall x, high x = true -> 0 <= worth u x.
Proof.
  fix IH 1. intros [x|a l k].
  - intros _. apply from_zero.
  - cbn [high]. intros H. apply andb_true_iff in H as [H L]. apply andb_true_iff in H as [A K].
    apply Z.leb_le in A. apply Z.ltb_lt in K. rewrite worth_quotient. apply Z.div_pos; [|easy].
    enough (0 <= sum u l) by lia. induction l as [|[x f] l IHl]; cbn [sum]; [lia|].
    apply andb_true_iff in L as [H L]. apply andb_true_iff in H as [F X]. apply Z.leb_le in F.
    specialize (IH x X). specialize (IHl L). nia.
Qed.

Lemma sum_plus_term x f l : sum u (plus_term x f l) = f * worth u x + sum u l.
Proof.
  induction l as [|[y g] l IH]; cbn [plus_term sum].
  - destruct (Z.eqb_spec f 0); cbn [sum]; lia.
  - destruct (alike x y) eqn:A; [|cbn [sum]; lia]. apply alike_worth in A.
    destruct (Z.eqb_spec (f + g) 0); cbn [sum]; nia.
Qed.

Lemma value_plus a b : value_at u (plus a b) = value_at u a + value_at u b.
Proof.
  unfold value_at, plus. cbn [known terms].
  enough (sum u (fold_right (fun t l => plus_term (fst t) (snd t) l) (terms a) (terms b))
          = sum u (terms a) + sum u (terms b)) by lia.
  induction (terms b) as [|[x f] l IH]; cbn [fold_right sum fst snd]; [lia|].
  rewrite sum_plus_term. lia.
Qed.

Lemma value_scaled k a : value_at u (scaled k a) = k * value_at u a.
Proof.
  unfold value_at, scaled. destruct (Z.eqb_spec k 0) as [->|]; cbn [known terms sum]; [lia|].
  enough (sum u (map (fun t => (fst t, k * snd t)) (terms a)) = k * sum u (terms a)) by lia.
  induction (terms a) as [|[x f] l IH]; cbn [map sum fst snd]; lia.
Qed.

Lemma value_minus a b : value_at u (minus a b) = value_at u a - value_at u b.
Proof. unfold minus. rewrite value_plus, value_scaled. lia. Qed.

Lemma value_plain a k : plain a = Some k -> value_at u a = k.
Proof. unfold plain, value_at. destruct (terms a); [|easy]. intros [= <-]. cbn. lia. Qed.

Lemma value_product a b c : product a b = Some c -> value_at u c = value_at u a * value_at u b.
Proof.
  unfold product. destruct (plain a) as [k|] eqn:A.
  - intros [= <-]. now rewrite value_scaled, (value_plain _ _ A).
  - destruct (plain b) as [k|] eqn:B; [|easy]. intros [= <-].
    rewrite value_scaled, (value_plain _ _ B). lia.
Qed.

Definition value_of (a : open) : Z :=
  match a with Number a => value_at u a | Rest a k => value_at u a mod k end.

Lemma sum_even k l : k <> 0 -> even k l = true -> sum u l = sum u (each (fun f => f / k) l) * k.
Proof.
  intros K. induction l as [|[x f] l IH]; cbn [even each forallb map sum fst snd]; [lia|].
  intros H. apply andb_true_iff in H as [D H]. apply Z.eqb_eq, Z.div_exact in D; [|easy].
  specialize (IH H). unfold each in IH. nia.
Qed.

Lemma sum_left k l : k <> 0 ->
  sum u l = sum u (each (fun f => f / k) l) * k + sum u (each (fun f => f mod k) l).
Proof.
  intros K. induction l as [|[x f] l IH]; cbn [each map sum fst snd]; [lia|].
  pose proof (Z.div_mod f k K). unfold each in IH. nia.
Qed.

Lemma value_quotient a k c : quotient a k = Some c ->
  k <> 0 /\ value_at u c = value_at u a / k.
Proof.
  unfold quotient. destruct (Z.eqb_spec k 0) as [|K]; [easy|].
  destruct (even k (terms a)) eqn:E.
  - intros [= <-]. split; [easy|]. unfold value_at. cbn [known terms].
    apply (sum_even k) in E; [|easy]. rewrite E, Z.div_add by easy. lia.
  - destruct (Z.ltb_spec k 0); [easy|]. intros [= <-]. split; [easy|].
    unfold value_at. cbn [known terms]. rewrite sum_plus_term, worth_quotient. cbn [left_of terms].
    rewrite (sum_left k (terms a) K). pose proof (Z.div_mod (known a) k K).
    replace (known a + (sum u (each (fun f => f / k) (terms a)) * k + sum u (each (fun f => f mod k) (terms a)))) with ((known a mod k + sum u (each (fun f => f mod k) (terms a)))
      + (known a / k + sum u (each (fun f => f / k) (terms a))) * k) by nia.
    rewrite Z.div_add by easy. lia.
Qed.

Lemma value_remainder a k c : remainder a k = Some c -> k <> 0 /\ value_of c = value_at u a mod k.
Proof.
  unfold remainder. destruct (Z.eqb_spec k 0) as [|K]; [easy|].
  destruct (even k (terms a)) eqn:E.
  - intros [= <-]. split; [easy|]. unfold value_of, value_at. cbn [known terms sum].
    apply (sum_even k) in E; [|easy]. now rewrite E, Z.mod_add, Z.add_0_r.
  - destruct (Z.ltb_spec k 0); [easy|]. intros [= <-]. split; [easy|].
    unfold value_of, value_at. cbn [left_of known terms].
    rewrite (sum_left k (terms a) K). pose proof (Z.div_mod (known a) k K).
    replace (known a + (sum u (each (fun f => f / k) (terms a)) * k + sum u (each (fun f => f mod k) (terms a)))) with ((known a mod k + sum u (each (fun f => f mod k) (terms a)))
      + (known a / k + sum u (each (fun f => f / k) (terms a))) * k) by nia.
    now rewrite Z.mod_add.
Qed.

Lemma value_divided a b c : divided a b = Some c -> apply Div (value_of a) (value_of b) = Some (value_of c).
Proof.
  unfold divided. destruct a as [a|], b as [b|]; try easy. destruct (plain b) as [k|] eqn:B; [|easy].
  destruct (quotient a k) as [q|] eqn:Q; [|easy]. intros [= <-]. apply value_quotient in Q as [K Q].
  cbn [value_of apply]. rewrite (value_plain _ _ B), Q. now destruct (Z.eqb_spec k 0).
Qed.

Lemma value_modulo a b c : modulo a b = Some c -> apply Mod (value_of a) (value_of b) = Some (value_of c).
Proof.
  unfold modulo. destruct b as [b|]; [|easy]. destruct (plain b) as [d|] eqn:B; [|easy].
  cbn [value_of apply]. rewrite (value_plain _ _ B). destruct a as [a|a k].
  - intros H. apply value_remainder in H as [K H]. rewrite H. now destruct (Z.eqb_spec d 0).
  - destruct (Z.ltb_spec 0 d) as [D|]; [|easy]. destruct (Z.ltb_spec 0 k) as [K|]; [|easy].
    destruct (Z.eqb_spec (k mod d) 0) as [M|]; [|easy]. cbn [andb]. intros H.
    apply value_remainder in H as [N H]. rewrite H. destruct (Z.eqb_spec d 0); [easy|]. cbn [value_of].
    f_equal. symmetry. apply Zmod_div_mod; [easy..|]. now apply Z.mod_divide.
Qed.

Lemma sum_low l : forallb (fun t : unknown * Z => (snd t <=? 0) && high (fst t)) l = true -> sum u l <= 0.
Proof.
  induction l as [|[x f] l IH]; cbn [forallb sum fst snd]; [lia|]. intros H.
  apply andb_true_iff in H as [L H]. apply andb_true_iff in L as [L X]. apply Z.leb_le in L.
  specialize (IH H). apply high_worth in X. nia.
Qed.

Lemma sum_high l : forallb (fun t : unknown * Z => (0 <=? snd t) && high (fst t)) l = true -> 0 <= sum u l.
Proof.
  induction l as [|[x f] l IH]; cbn [forallb sum fst snd]; [lia|]. intros H.
  apply andb_true_iff in H as [L H]. apply andb_true_iff in L as [L X]. apply Z.leb_le in L.
  specialize (IH H). apply high_worth in X. nia.
Qed.

Lemma value_negative a c : negative a = Some c -> (value_at u a <? 0) = c.
Proof.
  unfold negative, value_at. destruct (Z.ltb_spec (known a) 0) as [N|N]; cbn [andb].
  - destruct (forallb _ (terms a)) eqn:F.
    + intros [= <-]. apply sum_low in F. apply Z.ltb_lt. lia.
    + destruct (Z.leb_spec 0 (known a)); [lia|easy].
  - destruct (Z.leb_spec 0 (known a)); [|easy]. cbn [andb].
    destruct (forallb _ (terms a)) eqn:F; [|easy]. intros [= <-]. apply sum_high in F.
    apply Z.ltb_ge. lia.
Qed.

Lemma value_below a b c : below a b = Some c -> (value_of a <? value_of b) = c.
Proof.
  destruct a as [a|a k], b as [b|b j]; cbn [below value_of]; try easy.
  - intros H. apply value_negative in H. rewrite value_minus in H. rewrite <- H.
    destruct (Z.ltb_spec (value_at u a) (value_at u b)); symmetry; [apply Z.ltb_lt|apply Z.ltb_ge]; lia.
  - destruct (plain a) as [n|] eqn:A; [|easy]. rewrite (value_plain _ _ A).
    destruct (Z.ltb_spec 0 j) as [J|]; [|easy]. pose proof (Z.mod_pos_bound (value_at u b) j J).
    destruct (Z.ltb_spec n 0); cbn [andb].
    + intros [= <-]. apply Z.ltb_lt. lia.
    + destruct (Z.leb_spec (j - 1) n); [|easy]. intros [= <-]. apply Z.ltb_ge. lia.
  - destruct (plain b) as [n|] eqn:B; [|easy]. rewrite (value_plain _ _ B).
    destruct (Z.ltb_spec 0 k) as [K|]; [|easy]. pose proof (Z.mod_pos_bound (value_at u a) k K).
    destruct (Z.leb_spec k n); cbn [andb].
    + intros [= <-]. apply Z.ltb_lt. lia.
    + destruct (Z.leb_spec n 0); [|easy]. intros [= <-]. apply Z.ltb_ge. lia.
Qed.

Lemma value_not_above a b c : not_above a b = Some c -> (value_of a <=? value_of b) = c.
Proof.
  unfold not_above. destruct (below b a) as [x|] eqn:B; [|easy]. apply value_below in B.
  intros [= <-]. rewrite <- B. now rewrite Z.leb_antisym.
Qed.

Lemma value_same a b c : same a b = Some c -> (value_of a =? value_of b) = c.
Proof.
  assert (two : match not_above a b, not_above b a with
                | Some true, Some true => Some true
                | Some false, _ | _, Some false => Some false
                | _, _ => None
                end = Some c -> (value_of a =? value_of b) = c).
  { destruct (not_above a b) as [x|] eqn:A; destruct (not_above b a) as [y|] eqn:B;
      try apply value_not_above in A; try apply value_not_above in B;
      try destruct x; try destruct y; intros [= <-];
      repeat match goal with
      | H : (_ <=? _) = true |- _ => apply Z.leb_le in H
      | H : (_ <=? _) = false |- _ => apply Z.leb_gt in H
      end; (apply Z.eqb_eq || apply Z.eqb_neq); lia. }
  unfold same. destruct a as [a|a k], b as [b|b j]; [exact two..|]. clear two. cbn [value_of].
  destruct (Z.ltb_spec 0 k) as [K|]; [|easy]. destruct (Z.eqb_spec k j) as [<-|]; [|easy].
  destruct (even k (terms (minus a b))) eqn:E; [|easy]. cbn [andb].
  apply (sum_even k) in E; [|lia]. pose proof (value_minus a b) as M.
  unfold value_at at 1 in M. rewrite E in M.
  set (v := value_at u a) in *. set (w := value_at u b) in *. set (d := known (minus a b)) in *.
  set (s := sum u _) in M. assert (V : v = w + d + s * k) by lia.
  destruct (Z.eqb_spec (d mod k) 0) as [Z0|N]; intros [= <-].
  - apply Z.eqb_eq. apply Z.div_exact in Z0; [|lia]. rewrite V, Z0.
    replace (w + k * (d / k) + s * k) with (w + (d / k + s) * k) by ring. now rewrite Z.mod_add by lia.
  - apply Z.eqb_neq. intros Q. apply N. apply Z.mod_divide; [lia|].
    assert (D : (v - w) mod k = 0) by (rewrite Zminus_mod, Q, Z.sub_diag; apply Z.mod_0_l; lia).
    apply Z.mod_divide in D; [|lia]. destruct D as [q D]. exists (q - s). lia.
Qed.

Lemma value_number c : value_of (number c) = truth c.
Proof. unfold value_of, value_at, number. cbn. lia. Qed.

Lemma value_operated o a b c : operated o a b = Some c ->
  apply o (value_of a) (value_of b) = Some (value_of c).
Proof.
  destruct o; cbn [operated].
  - destruct a, b; try easy. intros [= <-]. cbn [apply value_of]. now rewrite value_plus.
  - destruct a, b; try easy. intros [= <-]. cbn [apply value_of]. now rewrite value_minus.
  - destruct a as [a|], b as [b|]; try easy. cbn [on_numbers apply value_of].
    destruct (product a b) as [d|] eqn:P; [|easy]. intros [= <-]. cbn [value_of].
    now rewrite (value_product _ _ _ P).
  - apply value_divided.
  - apply value_modulo.
  - destruct (not_above a b) as [x|] eqn:A; [|easy]. apply value_not_above in A.
    destruct x; intros [= <-]; [apply Z.leb_le in A|apply Z.leb_gt in A]; cbn [apply]; f_equal; lia.
  - destruct (not_above a b) as [x|] eqn:A; [|easy]. apply value_not_above in A.
    destruct x; intros [= <-]; [apply Z.leb_le in A|apply Z.leb_gt in A]; cbn [apply]; f_equal; lia.
  - destruct (below a b) as [x|] eqn:A; [|easy]. apply value_below in A. intros [= <-].
    cbn [apply]. now rewrite value_number, A.
  - destruct (not_above a b) as [x|] eqn:A; [|easy]. apply value_not_above in A. intros [= <-].
    cbn [apply]. now rewrite value_number, A.
  - destruct (same a b) as [x|] eqn:A; [|easy]. apply value_same in A. intros [= <-].
    cbn [apply]. now rewrite value_number, A.
  - destruct (same a b) as [x|] eqn:A; [|easy]. apply value_same in A. intros [= <-].
    cbn [apply]. now rewrite value_number, A.
  - destruct (not_above b a) as [x|] eqn:A; [|easy]. apply value_not_above in A. intros [= <-].
    cbn [apply]. now rewrite value_number, A.
  - destruct (below b a) as [x|] eqn:A; [|easy]. apply value_below in A. intros [= <-].
    cbn [apply]. now rewrite value_number, A.
  - easy.
  - easy.
Qed.

Lemma value_is_zero a c : is_zero a = Some c -> (value_of a =? 0) = c.
Proof. apply (value_same a (Number (Linear 0 []))). Qed.

(** What is computed with open numbers is what the expression is, for all values of the unknowns. *)
Theorem linear_sound env e a : computed env e = Some a ->
  eval (fun x => value_at u (env x)) e = Some (value_of a).
Proof.
  revert a. induction e as [v|x|e IH|o l IHl r IHr]; intros c; cbn [computed eval].
  - intros [= <-]. cbn [value_of]. unfold value_at. cbn. f_equal. lia.
  - now intros [= <-].
  - destruct (computed env e) as [a|]; [|easy]. rewrite (IH a eq_refl).
    destruct (is_zero a) as [z|] eqn:Z; [|easy]. intros [= <-]. apply value_is_zero in Z.
    now rewrite value_number, Z.
  - destruct (computed env l) as [a|]; [|easy]. rewrite (IHl a eq_refl).
    destruct o; cbn [decided];
      try (destruct (computed env r) as [b|]; [|easy]; rewrite (IHr b eq_refl); apply value_operated).
    + destruct (is_zero a) as [z|] eqn:Z; [|easy]. apply value_is_zero in Z. rewrite Z.
      destruct z; [intros [= <-]; now rewrite value_number|].
      destruct (computed env r) as [b|]; [|easy]. rewrite (IHr b eq_refl).
      destruct (is_zero b) as [y|] eqn:Y; [|easy]. apply value_is_zero in Y. intros [= <-].
      cbn [apply]. now rewrite value_number, Z, Y.
    + destruct (is_zero a) as [z|] eqn:Z; [|easy]. apply value_is_zero in Z. rewrite Z.
      destruct z; cbn [negb]; [|intros [= <-]; now rewrite value_number].
      destruct (computed env r) as [b|]; [|easy]. rewrite (IHr b eq_refl).
      destruct (is_zero b) as [y|] eqn:Y; [|easy]. apply value_is_zero in Y. intros [= <-].
      cbn [apply]. now rewrite value_number, Z, Y.
Qed.

End Values.

(** *** Unknowns that divisions make are from 0 on *)

Definition all_high (l : list (unknown * Z)) : bool := forallb (fun t => high (fst t)) l.

Lemma high_plus_term x f l : high x = true -> all_high l = true -> all_high (plus_term x f l) = true.
Proof.
  intros X. induction l as [|[y g] l IH]; cbn [plus_term all_high forallb fst]; intros H.
  - destruct (f =? 0); cbn [forallb fst]; [easy|]. now rewrite X.
  - apply andb_true_iff in H as [Y H]. destruct (alike x y).
    + destruct (f + g =? 0); cbn [all_high forallb fst]; [easy|]. rewrite X. exact H.
    + cbn [all_high forallb fst]. rewrite Y. now apply IH.
Qed.

Lemma high_each g l : all_high l = true -> all_high (each g l) = true.
Proof.
  induction l as [|[x f] l IH]; cbn [all_high each map forallb fst snd]; [easy|]. intros H.
  apply andb_true_iff in H as [X H]. rewrite X. now apply IH.
Qed.

(** So the checker need not look into a quotient to see that it is from 0 on. *)
Theorem quotient_high a k c : all_high (terms a) = true -> quotient a k = Some c ->
  all_high (terms c) = true.
Proof.
  intros H. unfold quotient. destruct (Z.eqb_spec k 0); [easy|].
  destruct (even k (terms a)); [intros [= <-]; now apply high_each|].
  destruct (Z.ltb_spec k 0); [easy|]. intros [= <-]. cbn [terms].
  apply high_plus_term; [|now apply high_each]. cbn [high left_of terms].
  destruct (Z.leb_spec 0 (known a mod k)); [|pose proof (Z.mod_pos_bound (known a) k); lia].
  destruct (Z.ltb_spec 0 k); [|lia]. cbn [andb].
  induction (terms a) as [|[x f] l IH]; cbn [each map fst snd]; [easy|].
  apply andb_true_iff in H as [X H]. cbn [fst] in X. rewrite X.
  destruct (Z.leb_spec 0 (f mod k)); [|pose proof (Z.mod_pos_bound f k); lia]. now apply IH.
Qed.
