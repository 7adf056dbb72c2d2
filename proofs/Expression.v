(** The expressions of sync programs, and their values: titan/sync/expression.py. *)

From Coq Require Import Bool ZArith.
Open Scope Z_scope.
Open Scope bool_scope.

Inductive operator :=
  Add | Sub | Mul | Div | Mod | Min | Max | Lt | Le | Eq | Ne | Ge | Gt | And | Or.

Inductive expression :=
| Constant (value : Z)
| Name (name : nat)
| Not (operand : expression)
| Binary (o : operator) (left right : expression).

Definition truth (b : bool) : Z := if b then 1 else 0.

(** One operator; no value for a division by zero. [Z.div] rounds towards minus infinity. *)
Definition apply (o : operator) (a b : Z) : option Z :=
  match o with
  | Add => Some (a + b) | Sub => Some (a - b) | Mul => Some (a * b)
  | Div => if b =? 0 then None else Some (a / b)
  | Mod => if b =? 0 then None else Some (a mod b)
  | Min => Some (Z.min a b) | Max => Some (Z.max a b)
  | Lt => Some (truth (a <? b)) | Le => Some (truth (a <=? b))
  | Eq => Some (truth (a =? b)) | Ne => Some (truth (negb (a =? b)))
  | Ge => Some (truth (b <=? a)) | Gt => Some (truth (b <? a))
  | And => Some (truth (negb (a =? 0) && negb (b =? 0)))
  | Or => Some (truth (negb (a =? 0) || negb (b =? 0)))
  end.

(** The connectives decide by their left side where they can. *)
Definition decided (o : operator) (a : Z) : option Z :=
  match o with
  | And => if a =? 0 then Some 0 else None
  | Or => if a =? 0 then None else Some 1
  | _ => None
  end.

Fixpoint eval (env : nat -> Z) (e : expression) : option Z :=
  match e with
  | Constant v => Some v
  | Name x => Some (env x)
  | Not e => match eval env e with Some a => Some (truth (a =? 0)) | None => None end
  | Binary o l r =>
      match eval env l with
      | None => None
      | Some a => match decided o a with
                  | Some v => Some v
                  | None => match eval env r with Some b => apply o a b | None => None end
                  end
      end
  end.
